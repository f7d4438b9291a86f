"""The asynchronous face of a policy: episodes await their samples, the policy works on batches."""

from __future__ import annotations

import asyncio

from turnpoint.policy import Policy, Sample, SampleRequest

_QUIET_ROUNDS = 4
"""Turns of the event loop without a new request after which every runnable episode is known to wait."""


class Sampler:
    """Collects the requests of all episodes that are ready and lets the policy work on them.

    The policy is advanced only when no episode can go on by itself, and requests are queued in the order
    of their keys, so batches depend on the episodes and not on the order in which the event loop ran them.
    ``busy`` counts environment calls in worker threads: in lockstep they are waited for as well.
    """

    def __init__(self, policy: Policy, *, lockstep: bool = True) -> None:
        self.policy = policy
        self.lockstep = lockstep
        self.busy = 0
        self._new: list[tuple[str, SampleRequest, asyncio.Future[Sample]]] = []
        self._open: dict[int, asyncio.Future[Sample]] = {}
        self._pump: asyncio.Task[None] | None = None

    async def sample(self, key: str, request: SampleRequest) -> Sample:
        """One model call; ``key`` orders it among the calls that become ready together."""
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
                finished = self.policy.advance()
            except Exception as error:
                self._fail(error)
                return
            for ticket, sample in finished:
                future = self._open.pop(ticket)
                if not future.cancelled():
                    future.set_result(sample)

    def _fail(self, error: Exception) -> None:
        """A broken policy is an error of whoever waits for it; without this they would wait for ever."""
        waiting = [*self._open.values(), *(future for *_, future in self._new)]
        self._open, self._new = {}, []
        for future in waiting:
            if not future.done():
                future.set_exception(error)

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
