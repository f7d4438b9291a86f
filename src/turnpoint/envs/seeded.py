"""Splits of generated tasks: drawn when they are asked for, and never equal between train and valid."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import overload

from turnpoint.records import Task

VALID_SEED = 1_000_000_000
"""First seed of the split ``valid``; ``train`` starts at 0."""
_VALID_SHARE = 51
"""Of 256 values of a board's digest: about a fifth of all boards may only appear in ``valid``."""


def seed_of(split: str, number: int) -> int:
    """Seed of task ``number`` of a split."""
    return number + (VALID_SEED if split == "valid" else 0)


def split_of(board: str) -> str:
    """The only split in which ``board`` may appear; so small boards that are drawn twice never leak."""
    digest = hashlib.blake2b(board.encode(), digest_size=1).digest()[0]
    return "valid" if digest < _VALID_SHARE else "train"


class SeededTasks(Sequence[Task]):
    """A lazy list: generating thousands of boards before the first turn would be a waste."""

    def __init__(self, split: str, count: int, draw: Callable[[str, int], Task]) -> None:
        """``draw(split, number)`` makes a task; the same arguments must give an equal one."""
        self._split, self._count = split, count
        self._draw = functools.lru_cache(maxsize=4096)(draw)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        numbers = range(self._count)[index]
        if isinstance(numbers, range):
            return [self._draw(self._split, number) for number in numbers]
        return self._draw(self._split, numbers)
