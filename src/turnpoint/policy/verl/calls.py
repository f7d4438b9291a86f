"""Calls to the rollout servers: sent at once, collected as they finish, repeated when a server dies."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

import ray
from verl.workers.rollout.replica import TokenOutput

from turnpoint.policy.verl.engine import VerlEngine, says_engine_is_dead
from turnpoint.policy.verl.errors import EngineError

_LOST = (ray.exceptions.RayActorError, TimeoutError, asyncio.TimeoutError)
"""What a call ends with when its server is gone or does not answer."""

_TRIES = 3
"""How often calls are repeated in a row while every server says that it is alive."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of ``generate``."""

    prompt_ids: list[int]
    params: dict[str, Any]
    session: str = ""
    """Calls of one session go to the same server as long as it lives; empty = wherever there is room."""


class Calls:
    """Calls of one kind; results come by ticket."""

    def __init__(self, engine: VerlEngine) -> None:
        self.engine = engine
        self.repeated = 0
        """Calls that were sent again because their server died."""
        self._open: dict[int, tuple[Call, concurrent.futures.Future[TokenOutput]]] = {}
        self._ended: list[tuple[int, TokenOutput]] = []
        """What was found to have ended and is not collected yet."""
        self._tickets = 0
        self._in_vain = 0
        """How often in a row calls were repeated although no server was found dead."""

    def __len__(self) -> int:
        return len(self._open) + len(self._ended)

    def send(self, call: Call) -> int:
        """Begin a call; returns its ticket."""
        self.engine.to_servers()
        self._tickets += 1
        self._send(self._tickets, call)
        return self._tickets

    def _send(self, ticket: int, call: Call) -> None:
        future = self.engine.loop.start(self._ask(call))
        self.engine.in_flight.add(future)
        future.add_done_callback(self.engine.in_flight.discard)
        self._open[ticket] = (call, future)

    def _ask(self, call: Call) -> Coroutine[Any, Any, TokenOutput]:
        answer = self.engine.client.generate(
            request_id=call.session or uuid4().hex,
            prompt_ids=call.prompt_ids,
            sampling_params=dict(call.params),
        )
        return asyncio.wait_for(answer, self.engine.settings.call_seconds)

    def finished(self) -> bool:
        """Whether a call has ended, or none is open: ``collect`` then has no call to wait for.

        Calls whose server died are repeated as in ``collect``, so they go on. Raises ``EngineError`` as it does.
        """
        self._look()
        return bool(self._ended) or not self._open

    def collect(self) -> list[tuple[int, TokenOutput]]:
        """Wait for at least one call and give all that are finished, in the order of their tickets.

        Calls whose server died are repeated on a new one. Raises ``EngineError`` if that is not possible.
        """
        while self._open and not self._ended:
            futures = [future for _, future in self._open.values()]
            concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
            self._look()
        ended, self._ended = self._ended, []
        return sorted(ended, key=lambda pair: pair[0])

    def _look(self) -> None:
        """Take finished calls off the list of open ones; those that were lost stay on it, and are repeated."""
        lost: dict[int, BaseException] = {}
        for ticket, (call, future) in list(self._open.items()):
            if not future.done():
                continue
            error = future.exception()
            if error is None:
                self._ended.append((ticket, future.result()))
                del self._open[ticket]
            elif isinstance(error, _LOST) or says_engine_is_dead(error):
                lost[ticket] = error
            else:
                self._give_up(f"refused a call of {len(call.prompt_ids)} tokens: {error}", error)
        if lost:
            self._repeat(lost)

    def _repeat(self, lost: dict[int, BaseException]) -> None:
        cause = next(iter(lost.values()))
        try:
            revived = self.engine.revive()
        except (EngineError, ray.exceptions.RayError) as error:
            self._give_up(f"died, and could not be started again: {error}", error)
        self._in_vain = 0 if revived or self._ended else self._in_vain + 1
        if not revived and any(isinstance(error, TimeoutError) for error in lost.values()):
            seconds = self.engine.settings.call_seconds
            what = f"is alive but took longer than policy.call_seconds ({seconds}) for an answer"
            self._give_up(what, cause)
        if self._in_vain > _TRIES:
            self._give_up(f"is alive but cannot be reached: {cause}", cause)
        self.repeated += len(lost)
        for ticket in lost:
            self._send(ticket, self._open[ticket][0])

    def _give_up(self, what: str, cause: BaseException) -> NoReturn:
        count, finished = len(self._open), len(self._ended)
        self._open, self._ended, self._in_vain = {}, [], 0
        raise EngineError(
            f"a rollout server {what}; {count} calls in flight and {finished} that had just finished are lost with it"
        ) from cause
