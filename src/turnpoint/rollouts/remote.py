"""Environment copies in processes elsewhere: calls with time limits, and workers that may die at any moment.

A worker holds one copy. One that dies is replaced, and if the environment is deterministic the episode goes on where
it was: its actions are repeated in the new worker and every answer is compared with the first one. Whatever cannot be
brought back ends the episode that met it, with a reason and a count.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from turnpoint.envs import Capabilities, Env, EnvError, EnvSettings
from turnpoint.envs.protocol import Knowledge
from turnpoint.envs.replay import Sent
from turnpoint.records import Observation, Step, Task

START_SECONDS = 300.0
"""Longest wait for a worker to start, or for a copy of an environment to be made."""
COUNTS = ("started", "lost", "hung", "resumed", "replayed_turns")
"""What is counted: workers started, workers that died, calls that took too long, episodes that went on in another
worker, and turns repeated for that."""


class WorkerDied(Exception):
    """The worker ended in the middle of a call, or before it."""


class WorkerLost(EnvError):
    """A worker died and its episode could not be brought back; the episode ends with it."""


class CallTimedOut(EnvError, TimeoutError):
    """A call took longer than it may; its worker was ended."""


class Handle(Protocol):
    """A worker that serves an ``EnvServer``."""

    def call(self, method: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        """``server.answer(method, arguments)``. Raises ``WorkerDied`` and ``TimeoutError``."""

    def kill(self) -> None:
        """End the worker, whatever it is doing."""


class EnvServer:
    """What runs in a worker: one copy of an environment, made from its settings on first use."""

    def __init__(self, settings: EnvSettings) -> None:
        self._suite = settings.build()
        self._env: Env | None = None

    def answer(self, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """(True, the result), or (False, what was raised, as text)."""
        try:
            return True, getattr(self, f"_{method}")(*arguments)
        except EnvError as error:
            return False, str(error)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"

    @property
    def env(self) -> Env:
        """The copy."""
        if self._env is None:
            self._env = self._suite.make()
        return self._env

    def _ready(self) -> bool:
        return True

    def _make(self) -> bool:
        return self.env is not None

    def _reset(self, task: Task) -> Observation:
        return self.env.reset(task)

    def _step(self, action: str) -> Step:
        return self.env.step(action)

    def _snapshot(self) -> Sent | None:
        """The state in transportable form; None where it has none, and replay has to do."""
        state = self.env.snapshot()
        try:
            return Sent(pickle.dumps(state))
        except Exception:  # pickle raises whatever the state's classes raise
            return None

    def _restore(self, state: Any) -> Observation:
        return self.env.restore(state.opened() if isinstance(state, Sent) else state)

    def _distance(self) -> int | None:
        return self.env.distance()

    def _best_actions(self, knowledge: Knowledge) -> list[str]:
        return self.env.best_actions(knowledge)

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


class EnvWorkers:
    """The workers of a run, never more than ``count``; idle ones are used again. Safe to use from several threads."""

    def __init__(
        self,
        start: Callable[[], Handle],
        capabilities: Capabilities,
        *,
        count: int,
        seconds: float | None,
    ) -> None:
        """``start`` makes a worker; ``count``: most of them; ``seconds``: longest single call."""
        self._start, self.capabilities = start, capabilities
        self.count, self.seconds = count, seconds
        self._idle: list[Handle] = []
        self._all: list[Handle] = []
        self._closed = False
        self._lock = threading.Condition()
        self._counts: Counter[str] = Counter()

    def warm_up(self, seconds: float) -> None:
        """Start all workers and wait until each can answer. Raises ``WorkerDied`` and ``TimeoutError``."""
        made = [self.take() for _ in range(self.count)]
        for handle in made:
            handle.call("ready", (), seconds)
        for handle in made:
            self.give_back(handle)

    def make(self) -> RemoteEnv:
        """A copy of the environment in an idle worker, or in a new one."""
        return RemoteEnv(self)

    def take(self) -> Handle:
        """An idle worker, or a new one, which may still be starting; waits where all are in use.

        Those in use come back by themselves, since no call of theirs is without a limit. Raises ``EnvError`` if none
        does, and after ``close``.
        """
        with self._lock:
            longest = START_SECONDS + (self.seconds or 0.0)
            room = self._lock.wait_for(
                lambda: self._closed or self._idle or len(self._all) < self.count, longest
            )
            if self._closed:
                raise EnvError("the environment workers of this run are closed")
            if not room:
                raise EnvError(f"none of the {self.count} environment workers came back within {longest:g} s")
            if self._idle:
                return self._idle.pop()
            handle = self._start()
            self._all.append(handle)
            self._counts["started"] += 1
            return handle

    def open(self) -> Handle:
        """A worker with a copy of the environment in it, however long it took to start (at most ``START_SECONDS``).

        Raises ``WorkerDied`` if they all die, two new ones included, and ``EnvError`` if the copy cannot be made.
        """
        death = WorkerDied()
        for _ in range(len(self._idle) + 2):  # any idle one may have died unnoticed
            handle = self.take()
            try:
                sound, value = handle.call("make", (), START_SECONDS)
            except WorkerDied as error:
                self.drop(handle, "lost")
                death = error
            except TimeoutError:
                self.drop(handle, "hung")
                late = f"a worker did not start and make its environment within {START_SECONDS:g} s"
                raise EnvError(late) from None
            else:
                if sound:
                    return handle
                self.give_back(handle)
                raise EnvError(value)
        raise death

    def give_back(self, handle: Handle) -> None:
        """A worker that is sound and whose copy is closed."""
        with self._lock:
            self._idle.append(handle)
            self._lock.notify()

    def drop(self, handle: Handle, reason: str) -> None:
        """A worker that died (``lost``) or must (``hung``)."""
        handle.kill()
        with self._lock:
            self._counts[reason] += 1
            if handle in self._all:
                self._all.remove(handle)
            self._lock.notify()

    def count_up(self, name: str, by: int = 1) -> None:
        """Count something of ``COUNTS``."""
        with self._lock:
            self._counts[name] += by

    def counts(self) -> dict[str, float]:
        """What was counted since the workers were made."""
        with self._lock:
            return {f"env_workers/{name}": float(self._counts[name]) for name in COUNTS}

    def close(self) -> None:
        """End all workers, for good; may be called twice."""
        with self._lock:
            handles, self._all, self._idle = self._all, [], []
            self._closed = True
            self._lock.notify_all()
        for handle in handles:
            handle.kill()


@dataclass(slots=True)
class _Past:
    """How a worker's copy came into its state."""

    task: Task | None
    """What was reset; None where a snapshot was restored."""
    snapshot: Any
    first: Observation
    """What was seen then."""
    steps: list[tuple[str, Step]]


class RemoteEnv:
    """One copy of an environment in a worker; the worker may be replaced under it."""

    def __init__(self, workers: EnvWorkers) -> None:
        self.capabilities = workers.capabilities
        self._workers = workers
        self._handle: Handle | None = workers.open()
        self._past: _Past | None = None

    def reset(self, task: Task) -> Observation:
        """See ``Env``; a worker that dies meanwhile is replaced."""
        self._past = None
        first: Observation = self._ask("reset", task)
        self._past = _Past(task, None, first, [])
        return first

    def step(self, action: str) -> Step:
        """See ``Env``."""
        step: Step = self._ask("step", action)
        if self._past is not None:
            self._past.steps.append((action, step))
        return step

    def snapshot(self) -> Any:
        """The state as ``Sent``; None where it cannot be sent, and states come back by replay.

        Raises ``EnvError`` where neither works.
        """
        state = self._ask("snapshot")
        if state is None and not self.capabilities.deterministic:
            raise EnvError(
                "the environment's snapshots cannot be sent between processes, and it cannot be replayed; set "
                "rollout.env_workers=threads"
            )
        return state

    def restore(self, snapshot: Any) -> Observation:
        """See ``Env``; takes snapshots of copies in workers (``Sent``) and of copies in this process."""
        self._past = None
        first: Observation = self._ask("restore", snapshot)
        self._past = _Past(None, snapshot, first, [])
        return first

    def distance(self) -> int | None:
        """See ``Env``."""
        found: int | None = self._ask("distance")
        return found

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """See ``Env``."""
        found: list[str] = self._ask("best_actions", knowledge)
        return found

    def close(self) -> None:
        """Give the worker back; one that does not close its copy is ended."""
        handle, self._handle, self._past = self._handle, None, None
        if handle is None:
            return
        try:
            handle.call("close", (), self._workers.seconds)
        except WorkerDied:
            self._workers.drop(handle, "lost")
        except TimeoutError:
            self._workers.drop(handle, "hung")
        else:
            self._workers.give_back(handle)

    # ---- calls and what happens when they fail ---------------------------------------------------

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return self._call(method, *arguments)
        except WorkerDied as death:
            self._bring_back(method, death)
        try:
            return self._call(method, *arguments)
        except WorkerDied as death:
            raise WorkerLost(f"the environment's worker died twice in {method}: {death}") from None

    def _call(self, method: str, *arguments: Any) -> Any:
        handle, limit = self._handle, self._workers.seconds
        if handle is None:
            handle = self._handle = self._workers.open()
        try:
            sound, value = handle.call(method, arguments, limit)
        except WorkerDied:
            self._handle = None
            self._workers.drop(handle, "lost")
            raise
        except TimeoutError:
            self._handle = self._past = None
            self._workers.drop(handle, "hung")
            raise CallTimedOut(
                f"{method} took longer than rollout.env_seconds ({limit}) in its worker, which was ended"
            ) from None
        if not sound:
            raise EnvError(value)
        return value

    def _bring_back(self, method: str, death: WorkerDied) -> None:
        """A new worker in the state of the dead one, proved. Raises ``WorkerLost`` where that is impossible."""
        if method in ("reset", "restore", "close"):
            return  # these begin anew by themselves
        past = self._past
        if past is None or ((past.steps or past.snapshot is None) and not self.capabilities.deterministic):
            raise WorkerLost(
                f"the environment's worker died in {method} ({death}), and the episode cannot be brought back: the "
                "environment is not deterministic"
            )
        try:
            self._repeat(past)
        except WorkerDied as again:
            raise WorkerLost(
                f"the environment's worker died in {method}, and the next one too: {again}"
            ) from None
        except EnvError as error:
            raise WorkerLost(f"the environment's worker died in {method}: {error}") from None
        self._workers.count_up("resumed")

    def _repeat(self, past: _Past) -> None:
        """Repeat everything up to now; every answer must be the one there was. Raises ``EnvError`` otherwise."""
        seen = self._call("reset", past.task) if past.task else self._call("restore", past.snapshot)
        if seen != past.first:
            raise EnvError("the first observation came out otherwise in the new worker")
        for turn, (action, step) in enumerate(past.steps):
            if self._call("step", action) != step:
                raise EnvError(f"the answer to turn {turn} came out otherwise in the new worker")
        self._workers.count_up("replayed_turns", len(past.steps))
