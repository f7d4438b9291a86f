"""Back-pressure on the way to an endpoint: places, a queue with an end, pauses that servers ask for, and rests.

A teacher that hangs must cost a step one deadline and not one for every call: after some calls in a row that brought
nothing the endpoint is left alone for a while, and calls fail at once, counted, until it is tried again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from turnpoint.config import Settings
from turnpoint.teachers.protocol import TeacherFailure
from turnpoint.teachers.wire import CallFailed

LEAVE_ALONE = frozenset({TeacherFailure.TIME_OUT, TeacherFailure.UNREACHABLE})
"""Failures after which another call would only wait, too."""


class NotAsked(CallFailed):
    """A call that was never sent."""


class GateSettings(Settings):
    """How many calls an endpoint gets, and how long others wait for it."""

    concurrency: PositiveInt = 16
    """Most requests at a time."""
    queue: NonNegativeInt | None = None
    """Most calls that wait for a place; further ones fail at once. None = no limit."""
    queue_seconds: PositiveFloat | None = 900.0
    """Longest wait for a place; then the call fails. None = no limit."""
    rest_after: PositiveInt | None = 8
    """Calls that end in time-outs or lost connections one after another, retries included, after which the endpoint is
    left alone; None = never."""
    rest_seconds: PositiveFloat = 60.0
    """How long; after it a single failure begins another rest."""


class Gate:
    """The places of one endpoint. Belongs to one event loop at a time; ``enter_loop`` moves it to another."""

    def __init__(self, settings: GateSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._places = asyncio.Semaphore(settings.concurrency)
        self._waiting = 0
        self._failed = 0
        """Calls in a row that brought nothing."""
        self._rests_until = 0.0
        self._pauses_until = 0.0
        self._counts: Counter[str] = Counter()

    def enter_loop(self) -> None:
        """Forget who waited in an event loop that is over; what was learnt of the endpoint stays."""
        self._places, self._waiting = asyncio.Semaphore(self.settings.concurrency), 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place for one call with its retries. Raises ``CallFailed`` where it would wait too long or in vain."""
        self._refuse_at_rest()
        await self._queue()
        try:
            self._refuse_at_rest()  # it may have begun meanwhile
            yield
        except NotAsked:
            raise
        except CallFailed as failure:
            self._heard(failure.reason)
            raise
        except TimeoutError:
            self._heard(TeacherFailure.TIME_OUT)
            raise
        else:
            self._failed = 0
        finally:
            self._places.release()

    async def _queue(self) -> None:
        settings = self.settings
        if not self._places.locked():
            await self._places.acquire()
            return
        if settings.queue is not None and self._waiting >= settings.queue:
            raise self._shed("queue_full", f"{self._waiting} calls wait already (queue)")
        self._waiting += 1
        self._counts["queued"] += 1
        try:
            async with asyncio.timeout(settings.queue_seconds):
                await self._places.acquire()
        except TimeoutError:
            told = f"no place for the call within queue_seconds ({settings.queue_seconds:g} s)"
            raise self._shed("queue_timed_out", told) from None
        finally:
            self._waiting -= 1

    def _refuse_at_rest(self) -> None:
        left = self._rests_until - self._clock()
        if left > 0:
            told = f"left alone for another {left:.0f} s after {self._failed} calls that brought nothing (rest_after)"
            raise self._shed("at_rest", told)

    def _shed(self, what: str, told: str) -> NotAsked:
        """The failure of a call that is not sent."""
        self._counts[what] += 1
        reason = TeacherFailure.UNREACHABLE if what == "at_rest" else TeacherFailure.TIME_OUT
        return NotAsked(reason, f"not asked: {told}", retry=False)

    def _heard(self, reason: TeacherFailure) -> None:
        """Count failures in a row; enough of them begin a rest."""
        settings = self.settings
        if reason not in LEAVE_ALONE:
            self._failed = 0
            return
        self._failed += 1
        if settings.rest_after is None or self._failed < settings.rest_after:
            return
        if self._rests_until <= self._clock():
            self._counts["rests"] += 1
            self._rests_until = self._clock() + settings.rest_seconds

    def pause(self, seconds: float) -> None:
        """The server asked for patience (Retry-After): nobody sends anything before it is over."""
        self._counts["pauses"] += 1
        self._pauses_until = max(self._pauses_until, self._clock() + seconds)

    async def calm(self) -> None:
        """Wait for the end of a pause, and a little longer, so that not all begin at the same moment."""
        while (left := self._pauses_until - self._clock()) > 0:
            await asyncio.sleep(left + random.uniform(0.0, 0.1 * left))

    def metrics(self) -> dict[str, float]:
        """What happened at the gate since it was made."""
        names = ("queued", "queue_full", "queue_timed_out", "at_rest", "rests", "pauses")
        return {f"gate/{name}": float(self._counts[name]) for name in names}
