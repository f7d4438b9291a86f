"""The agent of a verifiers environment, played from outside: no harness, no model server, real traces and scoring.

An environment's ``run`` asks its agent for turns. Here each such question is handed out as an observation, and the
reply is handed in as an action; what the environment and the task see of it is the library's own ``Trace``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from turnpoint.envs.protocol import EnvError


class Dialogue:
    """What is said between the environment's coroutine and whoever acts; both live in one event loop."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.replies: asyncio.Queue[str] = asyncio.Queue()

    async def reply_to(self, text: str) -> str:
        """The environment's side: ask, and wait."""
        await self.asked.put(text)
        return await self.replies.get()


class Seat:
    """One agent; ``run`` and ``interaction`` are what environments use of ``verifiers.v1.Agent``."""

    def __init__(self, name: str, config: Any, dialogue: Dialogue, completed: list[Any]) -> None:
        self.name, self.config = name, config
        self.trainable = True
        self._dialogue, self._completed = dialogue, completed

    async def run(self, task: Any, **unused: Any) -> Any:
        """One reply to the task's prompt; scored."""
        async with self.interaction(task) as talk:
            await talk.turn()
        return talk.trace

    @asynccontextmanager
    async def interaction(self, task: Any, **unused: Any) -> AsyncIterator[Talk]:
        """A conversation about a task; on the way out the task finishes and scores it, as the library does."""
        refuse_more_than_text(task)
        talk = Talk(task, self.name, self.config, self._dialogue)
        await _call(task.setup, trace=talk.trace, runtime=None)
        yield talk
        talk.trace.stop("user_closed")
        await _call(task.finalize, trace=talk.trace, runtime=None)
        await task.score(talk.trace, None)
        talk.trace.is_completed = talk.trace.ok = True
        self._completed.append(talk.trace)


class Talk:
    """``verifiers.v1.Interaction``: ``turn`` gives a segment with the agent's reply."""

    def __init__(self, task: Any, name: str, config: Any, dialogue: Dialogue) -> None:
        import verifiers.v1 as vf
        from verifiers.v1.state import state_cls

        told = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        self.trace: Any = vf.Trace(
            task=told, state=state_cls(type(task))(), agent=vf.AgentInfo(config=config, name=name)
        )
        self._stops = task.hooks("stop")
        self._limit = config.max_turns
        self._dialogue = dialogue
        self._unsaid = self._opening(task)

    def _opening(self, task: Any) -> list[str]:
        """System prompt and prompt go into the trace, and before the first reply."""
        from verifiers.v1.types import SystemMessage, UserMessage, content_text

        data, said = task.data, []
        if data.system_prompt:
            self._add(SystemMessage(content=data.system_prompt))
            said.append(data.system_prompt)
        prompt = (
            [UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt or [])
        )
        for message in prompt:
            self._add(message)
            if message.role != "assistant":
                said.append(content_text(message.content))
        return said

    async def turn(self, message: str | None = None) -> Any:
        """One user turn and the reply to it; a terminated segment where a limit or a stop ends the conversation."""
        from verifiers.v1.agent import Segment
        from verifiers.v1.types import AssistantMessage, UserMessage

        if message is not None:
            self._add(UserMessage(content=message))
            self._unsaid.append(message)
        if await self._ended():
            return Segment(messages=[], terminated=True)
        text, self._unsaid = "\n\n".join(self._unsaid), []
        reply = AssistantMessage(content=await self._dialogue.reply_to(text))
        self._add(reply, sampled=True)
        return Segment(messages=[reply])

    async def _ended(self) -> bool:
        if self.trace.stop_condition is not None:
            return True
        if self._limit is not None and self.trace.num_turns >= self._limit:
            self.trace.stop("max_turns")
            return True
        for stop in self._stops:
            if await _call(stop, trace=self.trace, task=self.trace.task.data):
                self.trace.stop(stop.__name__)
                return True
        return False

    def _add(self, message: Any, *, sampled: bool = False) -> None:
        from verifiers.v1.graph import MessageNode

        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))


def refuse_more_than_text(task: Any) -> None:
    """Raise ``EnvError`` if a task needs tools or a container, which only the library's own harnesses bring."""
    kind = type(task)
    wants = []
    if kind.NEEDS_CONTAINER or task.data.image:
        wants.append("a container")
    if task.toolsets(task.config):
        wants.append("tool servers")
    if task.plugged_judges():
        wants.append("a judge model")
    if wants:
        raise EnvError(
            f"a task of {kind.__name__} needs {' and '.join(wants)}; only conversations in text can be played here"
        )


async def _call(function: Any, **known: Any) -> Any:
    """Call a hook with those of the known arguments that it names, as the library does."""
    import inspect

    names = inspect.signature(function).parameters
    result = function(**{name: value for name, value in known.items() if name in names})
    return await result if inspect.isawaitable(result) else result


class Agents:
    """The seats of an episode as attributes."""

    def __init__(self, seats: Mapping[str, Seat]) -> None:
        self._seats = dict(seats)

    def __getattr__(self, name: str) -> Seat:
        seats = self.__dict__.get("_seats", {})
        if name not in seats:
            raise AttributeError(f"no agent '{name}'; this environment has {', '.join(seats)}")
        found: Seat = seats[name]
        return found
