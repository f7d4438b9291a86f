"""Exact mine probabilities: all layouts that agree with what is shown, counted."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from turnpoint.envs.minesweeper.board import neighbours

MOST_LAYOUTS = 400_000
"""Most layouts that are enumerated: about a second and 50 MB, once per size."""
_POSTERIORS_KEPT = 8192


class Posterior(NamedTuple):
    """Counts over the layouts that agree with what is shown, each as likely as any other."""

    layouts: int
    mines: tuple[int, ...]
    """For every cell: layouts with a mine there."""
    empty: tuple[int, ...]
    """For every cell: layouts with no mine there and none around it, where opening it cascades."""

    def probability(self, cell: int) -> float:
        """Probability of a mine in ``cell``."""
        return self.mines[cell] / self.layouts


class Layouts:
    """Every way to place ``mines`` mines on a field. One object per size is shared (see ``layouts``)."""

    def __init__(self, rows: int, columns: int, mines: int) -> None:
        cells = rows * columns
        chosen = np.fromiter(
            (cell for layout in combinations(range(cells), mines) for cell in layout), dtype=np.int64
        ).reshape(-1, mines)
        self._mined = np.zeros((cells, len(chosen)), dtype=np.bool_)
        self._mined[chosen.T, np.arange(len(chosen))] = True
        near = np.array(
            [[mask >> cell & 1 for cell in range(cells)] for mask in neighbours(rows, columns)],
            dtype=np.float32,
        )
        self._around = (near @ self._mined.astype(np.float32)).astype(np.int8)
        self.posterior = functools.lru_cache(maxsize=_POSTERIORS_KEPT)(self._posterior)

    def _posterior(self, shown: tuple[tuple[int, int], ...]) -> Posterior:
        """Counts given the number that each opened cell shows, as pairs (cell, number) in ascending order.

        Raises ``ValueError`` if no layout shows that.
        """
        index = np.arange(self._mined.shape[1])
        for cell, number in shown:
            index = index[(self._around[cell, index] == number) & ~self._mined[cell, index]]
        if not len(index):
            raise ValueError("no layout of the mines shows these numbers")
        mined = self._mined[:, index]
        empty = (self._around[:, index] == 0) & ~mined
        return Posterior(len(index), _sums(mined), _sums(empty))


def _sums(values: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> tuple[int, ...]:
    return tuple(np.count_nonzero(values, axis=1).tolist())


@functools.lru_cache(maxsize=8)
def layouts(rows: int, columns: int, mines: int) -> Layouts:
    """The shared enumeration of a size; there must be at most ``MOST_LAYOUTS`` (see ``count_layouts``)."""
    return Layouts(rows, columns, mines)


def count_layouts(cells: int, mines: int) -> int:
    """Ways to place the mines."""
    return comb(cells, mines)


def shown_numbers(opened: int, numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """What an observer sees of a board with these ``numbers``: the key of ``Layouts.posterior``."""
    return tuple((cell, number) for cell, number in enumerate(numbers) if opened >> cell & 1)
