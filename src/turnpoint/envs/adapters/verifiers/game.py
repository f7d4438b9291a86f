"""One episode of a verifiers environment, in the process that plays."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from turnpoint.envs.adapters.game import Shown
from turnpoint.envs.adapters.verifiers.library import TaskList, load_environment
from turnpoint.envs.adapters.verifiers.seat import Agents, Dialogue, Seat, refuse_more_than_text
from turnpoint.envs.protocol import EnvError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.verifiers.settings import VerifiersSettings

T = TypeVar("T")


class VerifiersGame:
    """The environment's ``run`` waits in an event loop of its own thread; each action lets it go on until it asks."""

    def __init__(self, settings: VerifiersSettings) -> None:
        self._settings = settings
        self.environment = load_environment(settings)
        self.tasks = TaskList(self.environment.taskset)
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._dialogue = Dialogue()
        self._completed: list[Any] = []
        self._running: asyncio.Task[float] | None = None

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Start a task, and go on to the environment's first question."""
        task = self.tasks[int(data["task"])]
        refuse_more_than_text(task)
        self._wait(self._end())
        return self._wait(self._begin(task))

    def step(self, action: str) -> Shown:
        """Hand the reply in, and go on to the next question or the end."""
        if self._running is None:
            raise EnvError("no task has been started yet")
        return self._wait(self._reply(action))

    def close(self) -> None:
        """End the episode and the thread."""
        if self._thread is None:
            return
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="verifiers", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self, task: Any) -> Shown:
        self._dialogue, self._completed = Dialogue(), []
        self._running = asyncio.create_task(self._play(task))
        return await self._next()

    async def _reply(self, action: str) -> Shown:
        await self._dialogue.replies.put(action)
        return await self._next()

    async def _next(self) -> Shown:
        """Wait for the environment's next question, or its end."""
        assert self._running is not None
        asked = asyncio.ensure_future(self._dialogue.asked.get())
        await asyncio.wait({asked, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return Shown(asked.result())
        asked.cancel()
        reward = self._running.result()
        return Shown("", reward, True, reward >= self._settings.success_reward)

    async def _play(self, task: Any) -> float:
        """One episode as ``Env.run_episode`` plays it; the sum of its traces' rewards."""
        import verifiers.v1 as vf
        from verifiers.v1.configs.agent import agent_config_fields

        environment = self.environment
        seats = {
            name: Seat(name, config, self._dialogue, self._completed)
            for name, config in agent_config_fields(environment.config).items()
        }
        agents = Agents(seats)
        told = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        episode = vf.Episode(env=vf.EnvInfo(id=environment.config.env_id), task=told)
        await environment.setup(agents)
        await environment.run(task, agents)
        episode.traces.extend(self._completed)
        await environment.finalize(task, episode)
        return float(sum(trace.reward for trace in self._completed))

    async def _end(self) -> None:
        """Give up an episode that waits for a reply."""
        running, self._running = self._running, None
        if running is not None and not running.done():
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await running
