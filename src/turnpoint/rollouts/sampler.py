"""The asynchronous face of a policy: episodes await their samples, the policy works on batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from turnpoint.policy import Policy, Sample, SampleRequest
from turnpoint.policy.protocol import Elsewhere

_QUIET_ROUNDS = 4
"""Turns of the event loop without a new request after which every runnable episode is known to wait."""
_LOOK_SECONDS = 0.005
"""Time between two looks whether a call that runs elsewhere has finished."""


class Sampler:
    """Collects the requests of all episodes that are ready and lets the policy work on them.

    The policy is advanced only when no episode can go on by itself, and requests are queued in the order
    of their keys, so batches depend on the episodes and not on the order in which the event loop ran them.
    ``busy`` counts answers that are awaited from outside (``waiting``): in lockstep they are waited for as well.
    Without lockstep nothing waits for model calls that run elsewhere (``Elsewhere``) but the episodes that asked for
    them; an engine in this process holds up everybody while it works, since a policy is not thread-safe.
    """

    def __init__(self, policy: Policy, *, lockstep: bool = True) -> None:
        self.policy = policy
        self.lockstep = lockstep
        self.busy = 0
        self._new: list[tuple[str, SampleRequest, asyncio.Future[Sample]]] = []
        self._open: dict[int, asyncio.Future[Sample]] = {}
        self._pump: asyncio.Task[None] | None = None
        self._finished = False

    @contextmanager
    def waiting(self, outside: bool = True) -> Iterator[None]:
        """While an answer is awaited that comes from outside: a thread, a server. Not for what samples here.

        In lockstep nothing is sampled meanwhile, so that batches do not depend on how fast the answer comes.
        """
        self.busy += outside
        try:
            yield
        finally:
            self.busy -= outside

    async def sample(self, key: str, request: SampleRequest) -> Sample:
        """One model call; ``key`` orders it among the calls that become ready together."""
        if self._finished:
            raise RuntimeError("these rollouts are closed; open new ones to sample")
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._new.append((key, request, future))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._new or self._open:
            await self._settle()
            self._submit()
            try:
                if not self.lockstep and isinstance(self.policy, Elsewhere) and not self.policy.finished():
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                finished = self.policy.advance()
            except Exception as error:
                if not self._fail(error):
                    raise  # nobody waits: whoever finishes hears of it
                return
            for ticket, sample in finished:
                future = self._open.pop(ticket)
                if not future.cancelled():
                    future.set_result(sample)

    async def finish(self) -> None:
        """Take no more calls and run the submitted ones to their end: a policy with calls in flight cannot be updated.

        Calls outlive the episodes that asked for them where those ran out of time.
        """
        self._finished = True
        for *_, future in self._new:
            future.cancel()
        if self._pump is not None and not self._pump.cancelled():
            await self._pump
        else:
            await self._run()

    def _fail(self, error: Exception) -> bool:
        """A broken policy is an error of whoever waits for it; without this they would wait for ever.

        False if nobody does.
        """
        waiting = [*self._open.values(), *(future for *_, future in self._new)]
        self._open, self._new = {}, []
        alive = [future for future in waiting if not future.done()]
        for future in alive:
            future.set_exception(error)
        return bool(alive)

    async def _settle(self) -> None:
        quiet, known = 0, len(self._new)
        while quiet < _QUIET_ROUNDS:
            await asyncio.sleep(0.0005 if self.lockstep and self.busy else 0)
            if len(self._new) != known or (self.lockstep and self.busy):
                quiet, known = 0, len(self._new)
            else:
                quiet += 1

    def _submit(self) -> None:
        ready, self._new = sorted(self._new, key=lambda item: item[0]), []
        for _, request, future in ready:
            if future.cancelled():
                continue
            try:
                self._open[self.policy.submit(request)] = future
            except Exception as error:
                future.set_exception(error)
