"""Environments of generated tasks: drawn when they are asked for, and never equal between train and valid."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from pydantic import PositiveInt

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.registry import EnvSettings
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


class SeededSettings(EnvSettings):
    """What environments of generated tasks have in common."""

    train_tasks: PositiveInt = 1000
    """Tasks of the split ``train``."""
    valid_tasks: PositiveInt = 200
    """Tasks of the split ``valid``; none of them is in ``train``."""


class SeededSuite:
    """Splits ``train`` and ``valid`` of generated tasks, and the header that names the generator's output."""

    name: str

    def __init__(self, settings: SeededSettings, draw: Callable[[str, int], Task]) -> None:
        """``draw(split, number)`` makes a task; the first ones are drawn at once, so that it may raise here."""
        counts = {"train": settings.train_tasks, "valid": settings.valid_tasks}
        self._tasks = {split: SeededTasks(split, count, draw) for split, count in counts.items()}
        for tasks in self._tasks.values():
            tasks[0]

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid`` in a fixed order, drawn when they are asked for."""
        if split not in self._tasks:
            raise EnvDataError(f"{self.name} has no split '{split}'; use train or valid")
        return self._tasks[split]

    def header_of(self, version: int | str, drawn: str, board: Mapping[str, Any]) -> dict[str, Any]:
        """Generator, the settings ``board`` that decide what a seed draws (under the name ``drawn``), hash, counts."""
        named = json.dumps([version, dict(board)], sort_keys=True)
        return {
            "env": self.name,
            "generator": version,
            drawn: dict(board),
            "sha256": hashlib.sha256(named.encode()).hexdigest(),
            "tasks": {split: len(tasks) for split, tasks in self._tasks.items()},
        }
