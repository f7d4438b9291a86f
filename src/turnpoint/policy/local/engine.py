"""The sampler: continuous batching over a key-value pool that outlives the calls of a session.

Running calls are the first ``active`` rows of the pool, so that a decoding step works on views. A row that
finishes changes places with the last running one and rests, its cache kept, until its session's next call
extends it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnpoint.policy.local.network import Network
from turnpoint.policy.local.prefill import SHARED_PREFIX, feed, on_device, prefill_groups
from turnpoint.policy.local.sampling import draw
from turnpoint.policy.local.slots import IntArray, shares
from turnpoint.policy.local.table import Call, Table
from turnpoint.policy.protocol import ContextOverflow, Sample, SampleRequest

ADMIT_SHARE = 4
"""Waiting calls join once they are this fraction (1/4) of the running ones: prefills come in batches."""
ADMIT_PATIENCE = 16
"""... or once one has waited this many decoding steps."""
Results = list[tuple[int, Sample]]


class Engine:
    """Runs sampling requests. What it does depends on the sequence of calls only, never on time."""

    def __init__(
        self, network: Network, eos: Iterable[int], *, context: int, max_rows: int, token_budget: int
    ) -> None:
        self.network, self.context, self.token_budget = network, context, token_budget
        self.table = Table(network, context=context, max_rows=max_rows)
        self.is_eos: npt.NDArray[np.bool_] = np.zeros(network.vocabulary, dtype=np.bool_)
        self.is_eos[list(eos)] = True
        self.returning: deque[Call] = deque()
        """Waiting calls whose session had a row when they came."""
        self.newcomers: deque[Call] = deque()
        self.active = 0
        self.counts: Counter[str] = Counter()
        """Work done: steps, and sampled, prefilled, padding, reused and copied tokens."""
        self._tickets = 0

    @property
    def in_flight(self) -> int:
        """Calls not finished yet."""
        return self.active + len(self.returning) + len(self.newcomers)

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
        queue = self.returning if request.session in self.table.slots.place else self.newcomers
        queue.append(Call(self._tickets, request, prompt, self.counts["steps"]))
        return self._tickets

    def advance(self) -> Results:
        """Work until at least one call finishes; results in the order of their tickets."""
        done: Results = []
        with torch.inference_mode():
            while not done and self.in_flight:
                if self._ready():
                    self._admit(done)
                else:
                    self._decode(done)
        return sorted(done, key=lambda pair: pair[0])

    def end_session(self, session: str) -> None:
        """Forget a session; a call of it that is running goes on without it."""
        self.table.slots.release(session)

    def forget(self) -> None:
        """The weights change: drop everything cached. Raises ``RuntimeError`` while calls are in flight."""
        if self.in_flight:
            raise RuntimeError(
                f"the weights cannot change while {self.in_flight} sampling calls are in flight; "
                "call advance() until it returns an empty list first"
            )
        self.table.slots.forget()

    # -- admission ---------------------------------------------------------------------------------------

    def _room(self, running: int) -> int:
        """Newcomers that may join ``running`` calls.

        They get rows no session has. Resting sessions lose theirs only while less than half of the rows is in
        use: with more episodes than rows it is faster to play some to the end than to compute everybody's
        history again every turn.
        """
        rows, slots = self.table.max_rows, self.table.slots
        free = rows - int((slots.busy | slots.owned).sum())
        return max(free, (rows + 1) // 2 - running)

    def _ready(self) -> bool:
        """Whether to prefill now; always so if calls wait and none runs."""
        if not (self.returning or self.newcomers) or self.active == self.table.max_rows:
            return False
        queues = [self.returning] if self.returning else []
        waiting = len(self.returning)
        if self.newcomers and (room := self._room(self.active)) > 0:
            queues.append(self.newcomers)
            waiting += min(room, len(self.newcomers))
        if not queues:
            return False
        oldest = min(queue[0].since for queue in queues)
        return waiting * ADMIT_SHARE >= self.active or self.counts["steps"] - oldest >= ADMIT_PATIENCE

    def _admit(self, done: Results) -> None:
        """Prefill what waits, in waves.

        A call that shares its start with another of the same wave is left for the next one, in which it
        copies what the other computed.
        """
        while wave := self._wave():
            first, last = self.active, self.active + len(wave)
            places = sorted(set(range(first, last)) - set(wave))
            self.table.exchange([row for row in wave if row >= last], places)
            self.active = last
            self._prefill(np.arange(first, last), done)

    def _wave(self) -> list[int]:
        """Rows, filled as far as cached, of waiting calls to prefill together."""
        wave: dict[int, Call] = {}
        for queue in (self.returning, self.newcomers):
            later: deque[Call] = deque()
            while queue and self.active + len(wave) < self.table.max_rows:
                if queue is self.newcomers and self._room(self.active + len(wave)) < 1:
                    break
                call = queue.popleft()
                if queue is self.returning and call.request.session not in self.table.slots.place:
                    self.newcomers.appendleft(call)  # it lost its row while it waited
                    continue
                row = self._place(call, wave.values())
                if row is None:
                    later.append(call)
                else:
                    wave[row] = call
            queue.extendleft(reversed(later))
        return list(wave)

    def _place(self, call: Call, wave: Collection[Call]) -> int | None:
        """Row for a call, with all cached tokens of its prompt in it; None to wait for one of ``wave``."""
        table, session = self.table, call.request.session
        own = table.slots.place.get(session)
        if own is not None and table.slots.busy[own]:
            own, session = None, ""
        donor, shared = table.slots.donor(call.prompt, own)
        if any(shares(other.prompt, call.prompt, shared + SHARED_PREFIX) for other in wave):
            return None
        table.reserve(len(call.prompt))
        row = table.vacant() if own is None else own
        table.pool.copy(donor, row, shared)
        table.start(row, call, session, shared)
        self.counts["reused"] += shared
        self.counts["copied"] += shared if donor != row else 0
        return row

    # -- computation -------------------------------------------------------------------------------------

    def _prefill(self, rows: IntArray, done: Results) -> None:
        """Feed what is not cached of the prompts of ``rows`` and sample their first tokens."""
        feeds = self.table.begin[rows] - self.table.slots.length[rows]
        groups = prefill_groups(feeds.tolist(), self.token_budget)
        if len(groups) == 1:
            groups = [list(range(len(rows)))]  # in place, so that the pool's rows are a view
        last = torch.cat([self._last(rows[group], feeds[group]) for group in groups])
        back = on_device(self.network, np.argsort(np.concatenate(groups)))
        self.table.slots.length[rows] += feeds
        self.counts["prefilled"] += int(feeds.sum())
        self._sample(last[back], rows, done)

    def _last(self, rows: IntArray, feeds: IntArray) -> Tensor:
        """Feed some rows; final hidden state ``[rows, width]`` of each one's last token."""
        self.counts["padding"] += int(feeds.max()) * len(rows) - int(feeds.sum())
        lines = torch.arange(len(rows), device=self.network.device)
        last = torch.zeros(0)
        for begin, hidden in feed(self.network, self.table.pool, self.table.slots, rows, feeds):
            ends = np.clip(feeds - 1 - begin, 0, hidden.shape[1] - 1)
            last = hidden[lines, on_device(self.network, ends)]
        return last

    def _decode(self, done: Results) -> None:
        """Feed each running row its newest token and sample the next."""
        rows = np.arange(self.active)
        where = self.table.slots.length[: self.active].copy()
        reach = int(where.max()) + 1
        positions = on_device(self.network, where)[:, None]
        ids = on_device(self.network, self.table.slots.tokens[rows, where])[:, None]
        masks = self.network.masks(positions, reach)
        hidden = self.network.hidden_with_pool(ids, positions, masks, self.table.pool, slice(0, self.active))
        self.table.slots.length[: self.active] += 1
        self.counts["steps"] += 1
        self._sample(hidden[:, 0], rows, done)

    def _sample(self, hidden: Tensor, rows: IntArray, done: Results) -> None:
        """Draw each row's next token from its final hidden state; finish rows that end with it."""
        table = self.table
        end = table.slots.length[rows]
        table.reserve(int(end.max()) + 1)
        temperature, top_p, top_k = table.knobs[rows].T
        uniforms = table.streams.take(rows, end - table.begin[rows])
        logits = self.network.logits(hidden)
        tokens, logprobs = draw(logits, uniforms, temperature, top_p, top_k.astype(np.int64))
        table.slots.tokens[rows, end] = tokens
        table.slots.logprobs[rows, end] = logprobs
        self.counts["sampled"] += len(rows)
        finished = rows[self.is_eos[tokens] | (end + 1 >= table.limit[rows])]
        if len(finished):
            self._finish(finished, done)

    def _finish(self, finished: IntArray, done: Results) -> None:
        """Hand out the samples of running rows and take the rows out of the running prefix."""
        table = self.table
        for row in finished:
            call = table.calls[row]
            assert call is not None
            span = slice(int(table.begin[row]), int(table.slots.length[row]) + 1)
            ids = table.slots.tokens[row, span]
            logprobs = table.slots.logprobs[row, span]
            ended = bool(self.is_eos[ids[-1]])
            sample = Sample(tuple(ids.tolist()), tuple(logprobs.tolist()), truncated=not ended)
            done.append((call.ticket, sample))
            table.calls[row] = None
        table.slots.busy[finished] = False
        active = self.active - len(finished)
        leaving = set(finished.tolist())
        movers = [row for row in range(active, self.active) if row not in leaving]
        table.exchange(movers, sorted(row for row in leaving if row < active))
        self.active = active
