"""Scoring conversations that grow: keys and values stay cached between calls, so only new tokens are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnpoint.policy.local.memory import Budget, told
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.prefill import SHARED_PREFIX, feed, on_device, prefill_groups
from turnpoint.policy.local.scorer import head_logprobs
from turnpoint.policy.local.slots import IntArray, Slots, shares
from turnpoint.policy.passages import Passage
from turnpoint.policy.protocol import Floats

FIRST_ROWS, FIRST_LENGTH = 16, 256
"""Size the pool starts with; it grows as needed."""


@dataclass(slots=True)
class _Job:
    """A passage in work."""

    session: str
    ids: IntArray
    spans: tuple[tuple[int, int], ...]
    row: int = -1
    values: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Log-probs [len(ids)] at the places of the spans."""

    @property
    def before(self) -> IntArray:
        """Positions whose hidden states predict the tokens of the spans."""
        return np.concatenate([np.arange(start - 1, stop - 1) for start, stop in self.spans])


class SessionScorer:
    """Log-probs of passages under one network whose weights do not change (or ``forget`` is called when they do).

    Each session has a row of the key-value pool. A passage reads only what its session, or any other row that
    starts with the same tokens, has not read yet. When rows run out, the session used longest ago loses its cache.
    """

    def __init__(
        self, network: Network, *, context: int, max_rows: int, budget: Budget, temperature: float = 1.0
    ) -> None:
        self.network, self.context, self.max_rows = network, context, max_rows
        self.budget, self.temperature = budget, temperature
        rows, length = min(FIRST_ROWS, max_rows), min(FIRST_LENGTH, context)
        self.pool = network.pool(rows, length)
        self.slots = Slots(rows, length)
        self.counts: Counter[str] = Counter()
        """Tokens read, and tokens reused from the cache."""

    def holds(self, session: str) -> bool:
        """Whether anything of a session is cached."""
        return session in self.slots.place

    def end_session(self, session: str) -> None:
        """A session will not go on; unknown names are ignored."""
        self.slots.release(session)

    def forget(self) -> None:
        """Drop everything cached."""
        self.slots.forget()

    def score(self, sessions: Sequence[str], passages: Sequence[Passage]) -> list[list[Floats]]:
        """Log-probs of each span of each passage; ``sessions`` name the conversations they belong to.

        Several passages of one session are read one after another. Passages must fit the context. Raises
        ``ConfigError`` if there is no memory for the cache or for a single passage.
        """
        jobs = [
            _Job(session, np.asarray(passage.ids, dtype=np.int64), passage.spans)
            for session, passage in zip(sessions, passages, strict=True)
        ]
        with torch.inference_mode():
            waiting = list(jobs)
            while waiting:
                wave, waiting = self._wave(waiting)
                self._read(wave)
        return [[job.values[start:stop] for start, stop in job.spans] for job in jobs]

    def _wave(self, waiting: Sequence[_Job]) -> tuple[list[_Job], list[_Job]]:
        """Jobs that get rows now, and the others: no row left, session in use, or a shared start to wait for."""
        wave: list[_Job] = []
        later: list[_Job] = []
        for job in waiting:
            (wave if len(wave) < self.max_rows and self._place(job, wave) else later).append(job)
        return wave, later

    def _place(self, job: _Job, wave: Sequence[_Job]) -> bool:
        """Give a job a row that holds all of its beginning that is cached anywhere."""
        slots = self.slots
        own = slots.place.get(job.session)
        if own is not None and slots.busy[own]:
            return False
        # The state that predicts the first wanted token must be computed, whatever is cached.
        lead = job.ids[: job.spans[0][0]]
        donor, shared = slots.donor(lead, own)
        if any(shares(other.ids, lead, shared + SHARED_PREFIX) for other in wave):
            return False
        self._reserve(len(job.ids))
        row = self._vacant() if own is None else own
        self.pool.copy(donor, row, shared)
        slots.claim(row, job.session)
        slots.length[row] = shared
        slots.tokens[row, : len(job.ids)] = job.ids
        self.counts["reused"] += shared
        job.row = row
        return True

    def _vacant(self) -> int:
        """A row for a new session; more are made, up to ``max_rows``, before any cache is given up."""
        slots = self.slots
        if slots.rows < self.max_rows and not ((slots.length == 0) & ~slots.busy).any():
            self._grow(min(2 * slots.rows, self.max_rows), self.pool.length)
        row = slots.vacant()
        assert row is not None, "a wave has at most as many jobs as there are rows"
        return row

    def _reserve(self, length: int) -> None:
        if length > self.pool.length:
            self._grow(self.slots.rows, min(max(length, self.pool.length * 3 // 2), self.context))

    def _grow(self, rows: int, length: int) -> None:
        with told(
            f"memory ran out where the cache of {self.budget.what} grew to {rows} conversations of {length} tokens; "
            f"lower {self.budget.section}.cache_rows ({self.max_rows}), set {self.budget.section}.dtype=bfloat16, or "
            "play shorter episodes"
        ):
            self.pool.grow(rows, length)
        self.slots.grow(rows, length)

    def _read(self, wave: Sequence[_Job]) -> None:
        """Feed what is not cached of a wave's passages and take the wanted log-probs."""
        rows = np.array([job.row for job in wave])
        feeds = np.array([len(job.ids) for job in wave]) - self.slots.length[rows]

        def attempt(tokens: int) -> None:
            # Nothing counts as cached before all is read, so another attempt writes the same to the same places.
            for group in prefill_groups(feeds.tolist(), tokens):
                self._feed([wave[i] for i in group], feeds[group])

        self.budget.run(attempt, int(feeds.max()))
        self.slots.length[rows] += feeds
        self.slots.busy[rows] = False
        self.counts["read"] += int(feeds.sum())

    def _feed(self, jobs: Sequence[_Job], feeds: IntArray) -> None:
        """One right-padded batch, in pieces if its attention mask would be too large."""
        rows = np.array([job.row for job in jobs])
        starts = self.slots.length[rows]
        for job in jobs:
            job.values = np.zeros(len(job.ids))
        for begin, hidden in feed(self.network, self.pool, self.slots, rows, feeds):
            self._take(jobs, starts + begin, hidden.shape[1], hidden)

    def _take(self, jobs: Sequence[_Job], first: IntArray, count: int, hidden: Tensor) -> None:
        """Log-probs of the wanted tokens whose predecessors stand at ``first .. first + count`` of their rows."""
        wanted = [job.before for job in jobs]
        wanted = [w[(w >= begin) & (w < begin + count)] for w, begin in zip(wanted, first, strict=True)]
        sizes = [len(w) for w in wanted]
        if not sum(sizes):
            return
        lines, places = np.repeat(np.arange(len(jobs)), sizes), np.concatenate(wanted)
        targets = np.concatenate([job.ids[w + 1] for job, w in zip(jobs, wanted, strict=True)])
        states = hidden[on_device(self.network, lines), on_device(self.network, places - first[lines])]
        logprobs = head_logprobs(self.network, states, on_device(self.network, targets), self.temperature)
        parts = np.split(logprobs.double().cpu().numpy(), np.cumsum(sizes)[:-1])
        for job, w, part in zip(jobs, wanted, parts, strict=True):
            job.values[w + 1] = part
