"""The pool's rows with everything that belongs to one: cache, tokens, session, running call, random stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turnpoint.policy.local.network import Network
from turnpoint.policy.local.sampling import Streams
from turnpoint.policy.local.slots import IntArray, Slots
from turnpoint.policy.protocol import SampleRequest

FIRST_ROWS, FIRST_LENGTH = 16, 256
"""Size a table starts with; it grows as needed."""


@dataclass(frozen=True, slots=True)
class Call:
    """A queued or running sampling call."""

    ticket: int
    request: SampleRequest
    prompt: IntArray
    since: int
    """Decoding step at which it came."""


class Table:
    """Rows of the key-value pool. Callers keep running calls in the first rows and move rows with ``exchange``."""

    def __init__(self, network: Network, *, context: int, max_rows: int) -> None:
        rows, length = min(FIRST_ROWS, max_rows), min(FIRST_LENGTH, context)
        self.context, self.max_rows = context, max_rows
        self.pool = network.pool(rows, length)
        self.slots = Slots(rows, length)
        self.streams = Streams(rows)
        self.calls: list[Call | None] = [None] * rows
        self.begin: IntArray = np.zeros(rows, dtype=np.int64)
        """Where a row's running call began to sample: its prompt's length."""
        self.limit: IntArray = np.zeros(rows, dtype=np.int64)
        """Sequence length at which a row's running call must end."""
        self.knobs: npt.NDArray[np.float64] = np.zeros((rows, 3))
        """Temperature, top-p, top-k of a row's running call."""

    def start(self, row: int, call: Call, session: str, cached: int) -> None:
        """Give a row, whose first ``cached`` tokens are the prompt's, to a call."""
        length, sampling = len(call.prompt), call.request.sampling
        self.slots.claim(row, session)
        self.slots.length[row] = cached
        self.slots.tokens[row, :length] = call.prompt
        self.streams.start(row, call.request.seed)
        self.calls[row] = call
        self.begin[row] = length
        self.limit[row] = min(length + sampling.max_tokens, self.context)
        self.knobs[row] = (sampling.temperature, sampling.top_p, sampling.top_k)

    def vacant(self) -> int:
        """A row for a new session; more are made, up to ``max_rows``, before any cache is given up."""
        unused = (self.slots.length == 0) & ~self.slots.busy
        rows = self.slots.rows
        if not unused.any() and rows < self.max_rows:
            self._grow(min(2 * rows, self.max_rows), self.pool.length)
        row = self.slots.vacant()
        assert row is not None, "fewer calls run than there are rows"
        return row

    def reserve(self, length: int) -> None:
        """Make sure that sequences of this length fit."""
        if length > self.pool.length:
            self._grow(self.slots.rows, min(max(length, self.pool.length * 3 // 2), self.context))

    def exchange(self, movers: Iterable[int], places: Iterable[int]) -> None:
        """Change the places of rows pairwise."""
        for a, b in zip(movers, places, strict=True):
            self.pool.swap(a, b, int(self.slots.length[a]), int(self.slots.length[b]))
            self.slots.swap(a, b)
            self.streams.swap(a, b)
            self.calls[a], self.calls[b] = self.calls[b], self.calls[a]
            for values in (self.begin, self.limit, self.knobs):
                values[[a, b]] = values[[b, a]]

    def _grow(self, rows: int, length: int) -> None:
        more = rows - self.slots.rows
        self.pool.grow(rows, length)
        self.slots.grow(rows, length)
        if more:
            self.streams.grow(rows)
            self.calls += [None] * more
            self.begin, self.limit = np.pad(self.begin, (0, more)), np.pad(self.limit, (0, more))
            self.knobs = np.pad(self.knobs, ((0, more), (0, 0)))
