"""Requests that begin alike as trees: what they share is computed once, and branches attend to it.

A tree is one token sequence of the forward pass. It grows either from nothing or from a cached prefix: the first
tokens of a row of the sampler's key-value pool, which need no computing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turnpoint.policy.local.merge import Item
from turnpoint.policy.local.slots import IntArray

WORTH = 1024
"""What a token's linear layers cost, in query-key pairs of attention; only speed depends on it."""
Lookup = Callable[[IntArray], tuple[int, int]]
"""From a prompt to the row that shares most of its start and how many tokens that is, short of the whole prompt."""


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens ``start .. stop`` of a tree, each the successor of the one before it."""

    start: int
    stop: int
    parent: int
    """Index of the token before the first; -1 = the cached prefix, up to the first token's position."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one item's response is predicted in a tree."""

    item: int
    """Position of the item in the caller's list."""
    before: IntArray
    """Index, for each response token, of the token whose hidden state predicts it."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Tokens of one forward pass, who follows whom, and the responses in them."""

    row: int
    """Pool row of the cached prefix; -1 = none."""
    cached: int
    """Tokens of the row that some token of the tree sees."""
    ids: IntArray
    positions: IntArray
    runs: tuple[Run, ...]
    spots: tuple[Spot, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def causal(self) -> bool:
        """Whether it is an ordinary sequence, which needs no mask."""
        return self.row < 0 and len(self.runs) == 1

    def visible(self, reach: int) -> npt.NDArray[np.bool_]:
        """Which of ``reach`` cached tokens and the tree's own ones each token sees, ``[n, reach + n]``."""
        seen = np.zeros((len(self), reach + len(self)), dtype=np.bool_)
        for run in self.runs:
            lines = slice(run.start, run.stop)
            if run.parent >= 0:
                seen[lines] = seen[run.parent]
            else:
                seen[lines, : self.positions[run.start]] = True
            size = run.stop - run.start
            seen[lines, reach + run.start : reach + run.stop] = np.tri(size, dtype=np.bool_)
        return seen


@dataclass(slots=True)
class _Strand:
    """Items each of which goes on where the one before it ends."""

    items: list[int]
    path: IntArray
    """Tokens that predict the responses: all but the last of the last item."""
    first: int
    """Position of the first token whose hidden state is wanted."""
    row: int = -1
    cached: int = 0


def forest(
    items: Sequence[Item],
    *,
    token_budget: int,
    mask_elements: int,
    lookup: Lookup | None = None,
    chosen: Sequence[int] | None = None,
) -> list[Tree]:
    """Trees that hold every chosen item (all by default) once, none with more tokens or a larger mask than allowed.

    A sequence that exceeds the token budget on its own is a tree of its own.
    """
    rows: dict[int, list[_Strand]] = {}
    for strand in _strands(items, range(len(items)) if chosen is None else chosen, lookup):
        if not _worth_resuming(strand, mask_elements):
            strand.row, strand.cached = -1, 0
        rows.setdefault(strand.row, []).append(strand)
    trees = []
    for row, strands in rows.items():
        grower = _Grower(row)
        for strand in strands:
            if not grower.takes(strand, token_budget, mask_elements):
                trees.append(grower.tree())
                grower = _Grower(row)
            grower.add(strand, items)
        trees.append(grower.tree())
    return trees


def sequence_trees(items: Sequence[Item], groups: Sequence[Sequence[int]]) -> list[Tree]:
    """Ordinary sequences: one for each group of items that extend each other."""
    trees = []
    for group in groups:
        grower = _Grower(-1)
        grower.add(_Strand(list(group), _path(items[group[-1]]), len(items[group[0]][0]) - 1), items)
        trees.append(grower.tree())
    return trees


def _path(item: Item) -> IntArray:
    prompt, response = item
    return np.asarray([*prompt, *response[:-1]], dtype=np.int64)


def _strands(items: Sequence[Item], chosen: Sequence[int], lookup: Lookup | None) -> list[_Strand]:
    """Strands in lexicographic order, in which what shares most stands together."""
    paths = {i: _path(items[i]) for i in chosen}
    # Big-endian bytes compare like the ids.
    order = sorted(chosen, key=lambda i: (paths[i].astype(">u4").tobytes(), len(items[i][0])))
    result: list[_Strand] = []
    for i in order:
        path, first = paths[i], len(items[i][0]) - 1
        row, cached = (-1, 0) if lookup is None else lookup(path[: first + 1])
        if result:
            last = result[-1]
            length = len(last.path)
            if cached <= length <= _common(last.path, path) and first >= last.first:
                last.items.append(i)
                last.path = path
                continue
        result.append(_Strand([i], path, first, row if cached else -1, cached))
    return result


def _worth_resuming(strand: _Strand, mask_elements: int) -> bool:
    """Whether to start from the cache: computing it again saves the mask, and half of the attention."""
    length = len(strand.path)
    new = length - strand.cached
    return new * length <= mask_elements and new * (WORTH + length) < length * (WORTH + length // 2)


def _common(a: IntArray, b: IntArray) -> int:
    """Number of tokens two sequences begin alike with."""
    length = min(len(a), len(b))
    different = a[:length] != b[:length]
    return int(different.argmax()) if different.any() else length


class _Grower:
    """A tree in the making; strands come in lexicographic order."""

    def __init__(self, row: int) -> None:
        self.row, self.cached, self.size = row, 0, 0
        self.ids: list[IntArray] = []
        self.positions: list[IntArray] = []
        self.runs: list[Run] = []
        self.spots: list[Spot] = []
        self.path: IntArray = np.empty(0, dtype=np.int64)
        """The strand added last."""
        self.places: IntArray = np.empty(0, dtype=np.int64)
        """Index in the tree of each of its tokens; -1 = cached."""
        self.rooted = 0
        """How many of its tokens are cached."""

    def takes(self, strand: _Strand, token_budget: int, mask_elements: int) -> bool:
        """Whether a strand fits and shares enough for what its tokens and the tree's hide from each other."""
        if not self.size:
            return True
        shared, _ = self._junction(strand)
        new = len(strand.path) - shared
        size = self.size + new
        if size > token_budget or size * (size + max(self.cached, strand.cached)) > mask_elements:
            return False
        return 2 * new * self.size <= WORTH * shared

    def add(self, strand: _Strand, items: Sequence[Item]) -> None:
        """Compute of a strand what is neither cached nor in the tree."""
        shared, parent = self._junction(strand)
        new = len(strand.path) - shared
        if parent < 0:
            self.rooted = shared
            self.cached = max(self.cached, shared)
            before = np.full(shared, -1, dtype=np.int64)
        else:
            before = self.places[:shared]
        self.places = np.concatenate([before, np.arange(self.size, self.size + new)])
        self.path = strand.path
        if new:
            self.runs.append(Run(self.size, self.size + new, parent))
            self.ids.append(strand.path[shared:])
            self.positions.append(np.arange(shared, len(strand.path)))
            self.size += new
        for item in strand.items:
            prompt, response = items[item]
            first = len(prompt) - 1
            self.spots.append(Spot(item, self.places[first : first + len(response)]))

    def _junction(self, strand: _Strand) -> tuple[int, int]:
        """How many tokens of a strand need no computing, and the tree's token it goes on from (-1 = the cache)."""
        shared = _common(self.path, strand.path)
        # What the tree took from the cache has no hidden states, so a wanted one must lie behind it.
        if shared > strand.cached and shared > self.rooted and strand.first >= self.rooted:
            return shared, int(self.places[shared - 1])
        return strand.cached, -1

    def tree(self) -> Tree:
        """What has grown."""
        ids, positions = np.concatenate(self.ids), np.concatenate(self.positions)
        return Tree(self.row, self.cached, ids, positions, tuple(self.runs), tuple(self.spots))
