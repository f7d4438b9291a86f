"""One conversation of τ²-bench: the agent's turn is a message or tool calls; the customer and the tools answer."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any, NamedTuple

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.envs.replay import ReplayMismatch
from turnpoint.envs.tau2 import library
from turnpoint.envs.tau2.calls import Call, parse_reply, render_call, render_result
from turnpoint.envs.tau2.settings import Tau2Settings
from turnpoint.envs.tau2.users import STOP, User, is_stop, make_user
from turnpoint.records import Observation, Step, Task

_FAREWELLS = 0.1
DONE = "done"
"""The tool that ends an episode without a customer."""
GREETING = "Hi! How can I help you today?"
"""What the benchmark's agent says first."""
_USER_STEPS = 20
"""Tool calls of a customer in a row."""


class Snapshot(NamedTuple):
    """A conversation; messages are never changed once they are said."""

    task: Task
    messages: tuple[Any, ...]
    text: str
    errors: int
    success: bool | None
    """None while the conversation is open."""


class Tau2Env:
    """A conversation that can be forked: tools are replayed from the beginning, and every answer is compared."""

    def __init__(self, settings: Tau2Settings, capabilities: Capabilities, find: Any) -> None:
        """``find`` gives the benchmark's task of one of ours; it raises ``EnvError`` for others."""
        self.capabilities = capabilities
        self._settings, self._find = settings, find
        self._solo = settings.user.kind == "solo"
        self._world: Any = None
        self._user: User | None = None
        self._task: Any = None
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start a conversation; the customer speaks first. Raises ``EnvError`` for tasks of other settings."""
        self._task = self._find(task)
        first = self._task.initial_state
        messages = list(first.message_history or ()) if first else []
        self._open(messages)
        shown = "\n".join(f"{message.role}: {message.content}" for message in messages if message.content)
        self._now = Snapshot(
            task, tuple(messages), shown or "The ticket is open. Call the first tool.", 0, None
        )
        if not self._solo and (not messages or messages[-1].role == "assistant"):
            text, stopped = self._customer(messages or [_assistant(content=GREETING)])
            text = f"{shown}\n{text}" if shown else text
            self._now = self._now._replace(text=text, success=False if stopped else None)
        return self._observation()

    def step(self, action: str) -> Step:
        """Send a message, or call tools."""
        now = self._current()
        if now.success is not None:
            return Step(self._observation(), 0.0, True, now.success, effective=False)
        reply = parse_reply(action.encode("utf-8", "replace").decode())
        if reply.fault:
            self._now = now._replace(errors=now.errors + 1)
            self._say(text=f"Error: {reply.fault}")
            return self._too_many_errors() or Step(self._observation(), 0.0, False, effective=False)
        if reply.calls:
            return self._call(reply.calls)
        return self._message(reply.text)

    def _message(self, text: str) -> Step:
        """A message to the customer; without one, the benchmark counts it as the agent's fault."""
        now = self._current()
        messages = [*now.messages, _assistant(content=text)]
        if self._solo:
            self._now = now._replace(messages=tuple(messages))
            if STOP in text:
                return self._finish()
            return self._fail("There is no customer to talk to.")
        answer, stopped = self._customer(messages)
        self._say(text=answer)
        return self._finish() if stopped else Step(self._observation(), 0.0, False)

    def _call(self, calls: tuple[Call, ...]) -> Step:
        from tau2.data_model.message import ToolCall

        now = self._current()
        if self._solo and any(call.name == DONE for call in calls):
            self._now = now._replace(messages=(*now.messages, _assistant(content=STOP)))
            return self._finish()
        made = [
            ToolCall(id=f"call_{len(now.messages)}_{n}", name=call.name, arguments=call.arguments)
            for n, call in enumerate(calls)
        ]
        results = [self._world.get_response(call) for call in made]
        failed = sum(bool(result.error) for result in results)
        text = "\n".join(render_result(str(result.content)) for result in results)
        self._now = now._replace(
            messages=(*now.messages, _assistant(tool_calls=made), *results),
            errors=now.errors + failed,
            text=text,
        )
        return self._too_many_errors() or Step(
            self._observation(), 0.0, False, effective=failed < len(results)
        )

    def _customer(self, messages: list[Any]) -> tuple[str, bool]:
        """The customer's answer, after whatever it did with its own tools, and whether it ends the conversation."""
        assert self._user is not None
        for _ in range(_USER_STEPS):
            said = self._user.next_message(messages)
            messages.append(said)
            if not said.is_tool_call():
                self._now = self._current()._replace(messages=tuple(messages))
                return str(said.content), is_stop(said)
            messages += [self._world.get_response(call) for call in said.tool_calls]
        raise EnvError(f"the customer used tools {_USER_STEPS} times without an answer")

    def _finish(self) -> Step:
        """Ask the benchmark for the reward."""
        now = self._current()
        try:
            reward = library.reward_of(self._task, list(now.messages), self._settings.domain, self._solo)
        except Exception as error:
            raise EnvError(f"the evaluation failed: {type(error).__name__}: {error}") from error
        success = reward == 1.0
        self._now = now._replace(success=success)
        return Step(self._observation(), reward, True, success)

    def _fail(self, text: str) -> Step:
        self._now = self._current()._replace(text=text, success=False)
        return Step(self._observation(), 0.0, True, False, effective=False)

    def _too_many_errors(self) -> Step | None:
        errors = self._current().errors
        return self._fail(f"{errors} calls failed.") if errors >= self._settings.max_errors else None

    def snapshot(self) -> Snapshot:
        """The conversation so far."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Play a conversation's tool calls again; raises ``ReplayMismatch`` if one answers differently."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of a conversation")
        self._task = self._find(snapshot.task)
        try:
            self._open(list(snapshot.messages))
        except ValueError as error:
            turn = sum(message.role == "assistant" for message in snapshot.messages)
            raise ReplayMismatch(
                snapshot.task.id, turn, "tool answers", "those recorded", str(error)
            ) from error
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """There is no oracle."""
        raise EnvError("tau2 has no oracle")

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """There is no oracle."""
        raise EnvError("tau2 has no oracle")

    def random_action(self, rng: random.Random) -> str:
        """A call of any tool with arguments drawn from the words shown; now and then a farewell."""
        if rng.random() < _FAREWELLS:
            return render_call(DONE, {}) if self._solo else "Everything is done."
        tool = rng.choice(library.agent_tools(self._settings.domain, self._solo))
        words = self._current().text.split() or ["?"]
        fields = tool["parameters"].get("properties", {})
        return render_call(tool["name"], {name: _drawn(fields[name], words, rng) for name in fields})

    def close(self) -> None:
        """Forget the conversation."""
        self._now = self._world = self._user = None

    def _open(self, messages: list[Any]) -> None:
        self._world = library.new_environment(self._settings.domain, self._solo)
        said = [m for m in messages if m.role != "user"] if self._solo else messages
        library.set_up(self._world, self._task, said)
        self._user = None if self._solo else make_user(self._settings.user, self._task, self._world)

    def _say(self, *, text: str) -> None:
        self._now = self._current()._replace(text=text)

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("no conversation has been started yet")
        return self._now

    def _observation(self) -> Observation:
        now = self._current()
        return Observation(now.text, None, _key(now))


def _assistant(*, content: str | None = None, tool_calls: Any = None) -> Any:
    from tau2.data_model.message import AssistantMessage

    return AssistantMessage(role="assistant", content=content, tool_calls=tool_calls)


def _drawn(field: dict[str, Any], words: list[str], rng: random.Random) -> Any:
    """A value of a tool's argument."""
    if "enum" in field:
        return rng.choice(field["enum"])
    kind = field.get("type")
    if kind in ("number", "integer"):
        return rng.randrange(100)
    if kind == "boolean":
        return rng.random() < 0.5
    return [rng.choice(words)] if kind == "array" else rng.choice(words)


def _key(now: Snapshot) -> str:
    """Conversations are the same state if the same was said and called, with the same number of failed calls."""
    said: list[Any] = [now.task.id, now.errors, now.success]
    for message in now.messages:
        calls = [(call.name, call.arguments) for call in getattr(message, "tool_calls", None) or ()]
        said.append((message.role, message.content, calls))
    return hashlib.blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
