"""The sampler: continuous batching over a key-value pool that outlives the calls of a session.

Running calls are the first ``active`` rows of the pool, so that a decoding step works on views. A row that
finishes changes places with the last running one and rests, its cache kept, until its session's next call
extends it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnpoint.policy.local.network import Network
from turnpoint.policy.local.sampling import Streams, draw
from turnpoint.policy.local.slots import IntArray, Slots, common_prefix, prefill_groups
from turnpoint.policy.protocol import ContextOverflow, Sample, SampleRequest

FIRST_ROWS, FIRST_LENGTH = 16, 256
"""Size the pool starts with; it grows as needed."""
ADMIT_SHARE = 4
"""Waiting calls join once they are this fraction (1/4) of the running ones: prefills come in batches."""
ADMIT_PATIENCE = 16
"""... or once one has waited this many decoding steps."""
SHARED_PREFIX = 16
"""A call waits for another's prefill if that saves it at least this many tokens."""
MASK_ELEMENTS = 2**26
"""Largest attention mask of a prefill; longer prompts are fed in pieces."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued call."""

    ticket: int
    request: SampleRequest
    prompt: IntArray
    since: int
    """Decoding step at which it came."""


class Engine:
    """Runs sampling requests. What it does depends on the sequence of calls only, never on time."""

    def __init__(
        self, network: Network, eos: Iterable[int], *, context: int, max_rows: int, token_budget: int
    ) -> None:
        self.network, self.context = network, context
        self.max_rows, self.token_budget = max_rows, token_budget
        rows, length = min(FIRST_ROWS, max_rows), min(FIRST_LENGTH, context)
        self.pool = network.pool(rows, length)
        self.slots = Slots(rows, length)
        self.streams = Streams(rows)
        self.is_eos: npt.NDArray[np.bool_] = np.zeros(network.vocabulary, dtype=np.bool_)
        self.is_eos[list(eos)] = True
        self.calls: list[Waiting | None] = [None] * rows
        self.limit: IntArray = np.zeros(rows, dtype=np.int64)
        """Sequence length at which a slot's running call must end."""
        self.knobs: npt.NDArray[np.float64] = np.zeros((rows, 3))
        """Temperature, top-p, top-k of a slot's running call."""
        self.waiting: deque[Waiting] = deque()
        self.active = 0
        self.counts: Counter[str] = Counter()
        """Work done: steps, sampled, prefilled, padding, reused and copied tokens."""
        self._tickets = 0

    @property
    def in_flight(self) -> int:
        """Calls not finished yet."""
        return self.active + len(self.waiting)

    def submit(self, request: SampleRequest) -> int:
        """Queue a call. Raises ``ContextOverflow`` if its prompt leaves no room for a token."""
        prompt = np.asarray(request.prompt_ids, dtype=np.int64)
        if not len(prompt) or request.sampling.max_tokens < 1:
            raise ValueError("a sampling request needs a non-empty prompt and max_tokens of at least 1")
        if prompt.min() < 0 or prompt.max() >= self.network.vocabulary:
            raise ValueError(
                f"prompt has a token id outside the vocabulary 0 .. {self.network.vocabulary - 1}"
            )
        if len(prompt) >= self.context:
            raise ContextOverflow(
                f"a prompt of {len(prompt)} tokens leaves no room to sample in a context length of {self.context}"
            )
        self._tickets += 1
        self.waiting.append(Waiting(self._tickets, request, prompt, self.counts["steps"]))
        return self._tickets

    def advance(self) -> list[tuple[int, Sample]]:
        """Work until at least one call finishes; results in the order of their tickets."""
        done: list[tuple[int, Sample]] = []
        with torch.inference_mode():
            while not done and self.in_flight:
                if self._ready():
                    self._admit(done)
                elif self.active:
                    self._decode(done)
        return sorted(done, key=lambda pair: pair[0])

    def end_session(self, session: str) -> None:
        """Forget a session; a call of it that is running goes on without it."""
        self.slots.release(session)

    def forget(self) -> None:
        """The weights change: drop everything cached. Raises ``RuntimeError`` while calls are in flight."""
        if self.in_flight:
            raise RuntimeError(
                f"the weights cannot change while {self.in_flight} sampling calls are in flight; "
                "call advance() until it returns an empty list first"
            )
        self.slots.forget()

    # -- admission ---------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        if not self.waiting or self.active == self.max_rows:
            return False
        enough = len(self.waiting) * ADMIT_SHARE >= self.active
        return enough or self.counts["steps"] - self.waiting[0].since >= ADMIT_PATIENCE

    def _admit(self, done: list[tuple[int, Sample]]) -> None:
        """Prefill what waits, in waves.

        A call that shares its start with another of the same wave is left for the next one, in which it
        copies what the other computed.
        """
        while self.waiting and self.active < self.max_rows:
            self._wave(done)

    def _wave(self, done: list[tuple[int, Sample]]) -> None:
        """Give waiting calls slots, make these the next rows of the running prefix, and prefill them."""
        wave: list[Waiting] = []
        chosen: list[int] = []
        later: deque[Waiting] = deque()
        while self.waiting and self.active + len(wave) < self.max_rows:
            call = self.waiting.popleft()
            slot = self._place(call, wave)
            if slot is None:
                later.append(call)
            else:
                wave.append(call)
                chosen.append(slot)
        self.waiting.extendleft(reversed(later))
        first, last = self.active, self.active + len(wave)
        places = sorted(set(range(first, last)) - set(chosen))
        self._gather([slot for slot in chosen if slot >= last], places)
        self.active = last
        self._prefill(np.arange(first, last), done)

    def _place(self, call: Waiting, wave: list[Waiting]) -> int | None:
        """Slot for a call with all cached tokens of its prompt in it; None to wait for one of ``wave``."""
        session = call.request.session
        own = self.slots.place.get(session)
        if own is not None and self.slots.busy[own]:
            own, session = None, ""
        donor, shared = self.slots.donor(call.prompt, own)
        most = len(call.prompt) - 1
        if shared + SHARED_PREFIX <= most:
            for other in wave:
                if min(common_prefix(other.prompt, call.prompt), most) >= shared + SHARED_PREFIX:
                    return None
        self._reserve(len(call.prompt))
        slot = self._vacant() if own is None else own
        self.pool.copy(donor, slot, shared)
        self.counts["reused"] += shared
        self.counts["copied"] += shared if donor != slot else 0
        self.slots.claim(slot, session)
        self.slots.length[slot] = shared
        self.slots.tokens[slot, : len(call.prompt)] = call.prompt
        sampling = call.request.sampling
        self.calls[slot] = call
        self.limit[slot] = min(len(call.prompt) + sampling.max_tokens, self.context)
        self.knobs[slot] = (sampling.temperature, sampling.top_p, sampling.top_k)
        self.streams.start(slot, call.request.seed)
        return slot

    def _vacant(self) -> int:
        """A slot for a new session; more are made, up to ``max_rows``, before any cache is given up."""
        unused = (self.slots.length == 0) & ~self.slots.busy
        rows = self.slots.rows
        if not unused.any() and rows < self.max_rows:
            self._grow(min(2 * rows, self.max_rows), self.pool.length)
        slot = self.slots.vacant()
        assert slot is not None, "fewer calls run than there are slots"
        return slot

    def _reserve(self, length: int) -> None:
        """Make sure that sequences of this length, plus what a step pads, fit."""
        if length > self.pool.length:
            self._grow(self.slots.rows, min(max(length, self.pool.length * 3 // 2), self.context))

    def _grow(self, rows: int, length: int) -> None:
        more = rows - self.slots.rows
        self.pool.grow(rows, length)
        self.slots.grow(rows, length)
        if more:
            self.streams.grow(rows)
            self.calls += [None] * more
            self.limit = np.pad(self.limit, (0, more))
            self.knobs = np.pad(self.knobs, ((0, more), (0, 0)))

    # -- layout ------------------------------------------------------------------------------------------

    def _gather(self, movers: list[int], places: list[int]) -> None:
        """Exchange rows pairwise so that the movers come to the places."""
        for a, b in zip(movers, places, strict=True):
            # A mover may hold more than its cached length (its prompt's tokens), never more keys than that.
            self.pool.swap(a, b, int(self.slots.length[a]), int(self.slots.length[b]))
            self.slots.swap(a, b)
            self.streams.swap(a, b)
            self.calls[a], self.calls[b] = self.calls[b], self.calls[a]
            for values in (self.limit, self.knobs):
                values[[a, b]] = values[[b, a]]

    def _finish(self, finished: IntArray, done: list[tuple[int, Sample]]) -> None:
        """Hand out the samples of running rows and take the rows out of the running prefix."""
        if not len(finished):
            return
        for slot in finished:
            call = self.calls[slot]
            assert call is not None
            span = slice(len(call.prompt), int(self.slots.length[slot]) + 1)
            ids = self.slots.tokens[slot, span]
            sample = Sample(
                token_ids=tuple(ids.tolist()),
                logprobs=tuple(self.slots.logprobs[slot, span].tolist()),
                truncated=not bool(self.is_eos[ids[-1]]),
            )
            done.append((call.ticket, sample))
            self.calls[slot] = None
        self.slots.busy[finished] = False
        active = self.active - len(finished)
        holes = [int(s) for s in finished if s < active]
        leaving = set(finished.tolist())
        self._gather([s for s in range(active, self.active) if s not in leaving], holes)
        self.active = active

    # -- computation -------------------------------------------------------------------------------------

    def _prefill(self, rows: IntArray, done: list[tuple[int, Sample]]) -> None:
        """Feed what is not cached of the prompts of ``rows`` and sample their first tokens."""
        starts = self.slots.length[rows]
        prompts = np.array([len(call.prompt) for call in self.calls[rows[0] : rows[-1] + 1] if call])
        feeds = prompts - starts
        last: list[Tensor | None] = [None] * len(rows)
        for group in prefill_groups(feeds.tolist(), self.token_budget):
            whole = len(group) == len(rows)
            members = np.arange(len(rows)) if whole else np.asarray(group)
            self._feed(rows[members], starts[members], feeds[members], members, last)
        self.slots.length[rows] = prompts
        self.counts["prefilled"] += int(feeds.sum())
        self._sample(torch.stack([vector for vector in last if vector is not None]), rows, done)

    def _feed(
        self, rows: IntArray, starts: IntArray, feeds: IntArray, members: IntArray, last: list[Tensor | None]
    ) -> None:
        """Run right-padded new tokens of some rows; put each one's final hidden state into ``last``."""
        longest, reach = int(feeds.max()), int((starts + feeds).max())
        self.counts["padding"] += longest * len(rows) - int(feeds.sum())
        piece = max(1, min(longest, MASK_ELEMENTS // (len(rows) * reach)))
        contiguous = bool((np.diff(rows) == 1).all())
        selected = slice(int(rows[0]), int(rows[-1]) + 1) if contiguous else self._device(rows)
        for begin in range(0, longest, piece):
            offsets = np.arange(begin, min(begin + piece, longest))
            # Padding repeats the row's last token: same key, same value, same place, so it needs no room.
            offsets = np.minimum(offsets, feeds[:, None] - 1)
            where = starts[:, None] + offsets
            ids, positions = self._device(self.slots.tokens[rows[:, None], where]), self._device(where)
            hidden = self.network.hidden_with_pool(
                ids, positions, self.network.masks(positions, reach), self.pool, selected
            )
            for i, feed in enumerate(feeds):
                if begin < feed <= begin + piece:
                    last[members[i]] = hidden[i, feed - 1 - begin]

    def _decode(self, done: list[tuple[int, Sample]]) -> None:
        """Feed each running row its newest token and sample the next."""
        n = self.active
        rows = np.arange(n)
        where = self.slots.length[:n].copy()
        reach = int(where.max()) + 1
        self._reserve(reach + 1)
        positions = self._device(where)[:, None]
        ids = self._device(self.slots.tokens[rows, where])[:, None]
        masks = self.network.masks(positions, reach)
        hidden = self.network.hidden_with_pool(ids, positions, masks, self.pool, slice(0, n))
        self.slots.length[:n] += 1
        self.counts["steps"] += 1
        self._sample(hidden[:, 0], rows, done)

    def _sample(self, hidden: Tensor, rows: IntArray, done: list[tuple[int, Sample]]) -> None:
        """Draw each row's next token from its final hidden state; finish rows that end with it."""
        end = self.slots.length[rows]
        self._reserve(int(end.max()) + 1)
        calls = self.calls[rows[0] : rows[-1] + 1]
        steps = end - np.array([len(call.prompt) for call in calls if call])
        temperature, top_p, top_k = self.knobs[rows].T
        uniforms = self.streams.take(rows, steps)
        tokens, logprobs = draw(
            self.network.logits(hidden), uniforms, temperature, top_p, top_k.astype(np.int64)
        )
        self.slots.tokens[rows, end] = tokens
        self.slots.logprobs[rows, end] = logprobs
        self.counts["sampled"] += len(rows)
        self._finish(rows[self.is_eos[tokens] | (end + 1 >= self.limit[rows])], done)

    def _device(self, values: npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.network.device)
