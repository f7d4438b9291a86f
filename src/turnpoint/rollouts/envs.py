"""Environment copies: lent to episodes, called under a time limit, and given up when they hang."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from turnpoint.envs import Env, EnvError, EnvSuite
from turnpoint.envs.replay import restore_turn
from turnpoint.envs.sound import SoundEnv
from turnpoint.records import Episode, Observation, Step, Task, Turn
from turnpoint.rollouts.remote import START_SECONDS, EnvWorkers
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.workers import Worker

T = TypeVar("T")
_CALLS_AT_A_TIME = min(32, (os.cpu_count() or 1) + 4)
"""Calls in threads that run together; the others wait, and their time does not run yet. Hung ones do not count."""


class EnvPool:
    """Copies of one suite's environment: idle ones are used again, broken ones are closed.

    Without a time limit everything happens where it is called. With one, each copy is made, called and closed in a
    thread of its own, so that a call that hangs costs its episode only.

    With workers no more copies are lent than there are workers. Whoever holds one and asks for another may then wait
    for ever, if all do the same: give the first one back before.
    """

    def __init__(
        self, suite: EnvSuite, sampler: Sampler, seconds: float | None, workers: EnvWorkers | None = None
    ) -> None:
        """``seconds``: longest single call; None = no limit. ``sampler`` hears of calls that take time.

        ``workers``: processes in which copies live; they limit their calls themselves.
        """
        self.suite = suite
        self.workers = workers
        self.sampler = sampler
        self.seconds = seconds
        self.places = asyncio.Semaphore(_CALLS_AT_A_TIME if workers is None else workers.count)
        self._copies = None if workers is None else asyncio.Semaphore(workers.count)
        self._making = asyncio.Lock()
        self._hung: EnvCopy | None = None
        """The copy whose making was given up last: no other is begun while that goes on."""
        self._idle: list[EnvCopy] = []
        self._closing: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[EnvCopy]:
        """A copy for as long as the block runs; one whose block raised is closed and not used again."""
        copy = await self.borrow()
        try:
            yield copy
        except BaseException:
            self.give_back(copy, broken=True)
            raise
        self.give_back(copy)

    async def borrow(self) -> EnvCopy:
        """An idle copy, or a new one; for ``give_back``. Raises ``EnvError`` and ``TimeoutError`` as calls do."""
        if self._copies is None:
            return await self._find()
        await self._copies.acquire()
        try:
            return await self._find()
        except BaseException:
            self._copies.release()
            raise

    async def _find(self) -> EnvCopy:
        if self._idle:
            return self._idle.pop()
        if self.workers is not None:
            return await self._make()
        async with self._making:  # one after another: a suite need not be safe to use from several threads
            if self._idle:
                return self._idle.pop()
            if (
                self._hung is not None and self._hung.making
            ):  # or all who wait here would hang, one after another
                raise TimeoutError(f"{self._hung.late} and still hangs; no other is made meanwhile")
            return await self._make()

    async def _make(self) -> EnvCopy:
        copy = EnvCopy(self)
        try:
            await copy.make()
        except BaseException as error:
            if isinstance(error, TimeoutError):
                self._hung = copy
            self._discard(copy)
            raise
        return copy

    def give_back(self, copy: EnvCopy, *, broken: bool = False) -> None:
        """Return a borrowed copy; a broken one is closed."""
        if broken or copy.lost:
            self._discard(copy)
        else:
            self._idle.append(copy)
        if self._copies is not None:
            self._copies.release()

    def _discard(self, copy: EnvCopy) -> None:
        closing = copy.close()
        if closing is not None and not copy.lost:
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close idle copies; those that were given up close by themselves if their call ever returns."""
        while self._idle:
            self._discard(self._idle.pop())
        if self._closing:
            await asyncio.wait(self._closing, timeout=self.seconds)


class EnvCopy:
    """One copy of an environment, and the way to call it.

    Calls raise ``EnvError`` with the text of whatever the environment raised, and ``TimeoutError`` where it took
    longer than the limit.
    """

    def __init__(self, pool: EnvPool) -> None:
        self._pool = pool
        threaded = pool.seconds is not None or pool.workers is not None
        self._worker = Worker("environment") if threaded else None
        self._env: Env | None = None
        self.lost = False
        """A call was given up and may still be running: nothing more can be asked."""
        self.making = False
        """The environment is being made, perhaps for ever."""
        self.late = f"the environment was not made within {START_SECONDS:g} s"

    @property
    def env(self) -> Env:
        """The environment itself; only ``call`` may use it."""
        if self._env is None:
            raise EnvError("this copy of the environment was never made")
        return self._env

    async def make(self) -> None:
        """Make the environment; that may take longer than a call."""
        self.making = True
        await self._call(START_SECONDS, self.late, self._make)

    def _make(self) -> None:
        try:
            self._env = SoundEnv((self._pool.workers or self._pool.suite).make())
        finally:
            self.making = False

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """``function(*arguments)``, which may use this copy's environment and no other."""
        limit = self._pool.seconds
        late = f"a call of the environment took longer than rollout.env_seconds ({limit})"
        return await self._call(limit, late, function, *arguments)

    async def _call(self, limit: float | None, late: str, function: Callable[..., T], *arguments: Any) -> T:
        """A call that may take ``limit`` seconds; ``late`` is said if it takes longer."""
        if self._worker is None:
            return _attempt(function, *arguments)
        if self.lost:
            raise EnvError("this copy of the environment hangs in an earlier call")
        if self._pool.workers is not None:
            limit = None  # a worker has its own, in which the start of another after its death does not count
        with self._pool.sampler.waiting():
            async with self._pool.places:
                answer: asyncio.Future[T] = self._worker.start(_attempt, function, *arguments)
                try:
                    # Not asyncio.timeout: an answer that was there in time counts even if the loop was busy then.
                    await asyncio.wait([answer], timeout=limit)
                    if not answer.done():
                        raise TimeoutError(late)
                    return answer.result()
                finally:
                    answer.cancel()
                    self.lost = answer.cancelled()

    async def reset(self, task: Task) -> Observation:
        """Start ``task``."""
        return await self.call(self.env.reset, task)

    async def restore(self, episode: Episode, turn: int) -> Observation:
        """The verified state before ``turn`` of ``episode``. Raises ``ReplayMismatch``."""
        return await self.call(restore_turn, self.env, episode, turn, self._pool.workers is not None)

    async def snapshot(self) -> Any:
        """The state, or None where the environment has no snapshots."""
        return await self.call(self.env.snapshot) if self.env.capabilities.snapshots else None

    async def execute(self, turn: Turn) -> Step:
        """Step with what a turn gives the environment, and record the outcome in the turn."""
        turn.snapshot = await self.snapshot()
        step = await self.call(self.env.step, turn.executed)
        turn.reward, turn.done, turn.effective = step.reward, step.done, step.effective
        return step

    def close(self) -> asyncio.Future[None] | None:
        """Close the environment, in its thread if it has one: behind a call that hangs, whenever that returns."""
        if self._worker is None:
            self._close()
            return None
        closing = self._worker.start(self._close)
        self._worker.stop()
        return closing

    def _close(self) -> None:
        if self._env is None:
            return
        try:
            self._env.close()
        except Exception:
            return  # a broken copy is given up anyway; its failure is already on record


def _attempt(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except EnvError:
        raise
    except (Exception, SystemExit) as error:  # whatever an environment does, it does not end the run
        raise EnvError(f"{type(error).__name__}: {error}") from error
