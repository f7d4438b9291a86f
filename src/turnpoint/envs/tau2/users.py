"""Customers: what they say next, given the conversation so far. None of them keeps state."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.tau2.settings import UserSettings

STOP = "###STOP###"


class User(Protocol):
    """A customer of one task."""

    def next_message(self, messages: Sequence[Any]) -> Any:
        """The next ``UserMessage``; ``messages`` is the whole conversation, tool calls of both sides included."""


def make_user(settings: UserSettings, task: Any, environment: Any) -> User:
    """The customer that the settings ask for."""
    kit = environment.user_tools
    if settings.kind == "scripted":
        return ScriptedUser(task, [] if kit is None else list(kit.tools))
    tools = None if kit is None else environment.get_user_tools()
    return SimulatedUser(settings, task, tools)


class ScriptedUser:
    """A customer who says everything at once, does what it is told with its own tools, and agrees.

    It opens with its whole scenario. Where the agent names one of the customer's tools with its arguments
    (``toggle_airplane_mode()``), it uses it and reports the answer. To a question it says yes and repeats what it
    knows; anything else ends the conversation.
    """

    def __init__(self, task: Any, tools: Sequence[str]) -> None:
        self.opening, self.facts = _scenario(task)
        names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True))
        self._named = re.compile(rf"\b({names})\(([^()]*)\)") if tools else None

    def next_message(self, messages: Sequence[Any]) -> Any:
        from tau2.data_model.message import ToolCall, UserMessage

        last = messages[-1]
        if last.role == "tool" and last.requestor == "user":
            return UserMessage(role="user", content=f"I did that. {_results(messages)}")
        if not any(message.role == "user" and message.content == self.opening for message in messages):
            return UserMessage(role="user", content=self.opening)
        asked = str(last.content)
        found = self._named.findall(asked) if self._named is not None else []
        if found:
            calls = [
                ToolCall(
                    id=f"user_{len(messages)}_{n}", name=name, arguments=_arguments(body), requestor="user"
                )
                for n, (name, body) in enumerate(found)
            ]
            return UserMessage(role="user", content=None, tool_calls=calls)
        if "?" in asked:
            return UserMessage(role="user", content=f"Yes, please. {self.facts}".strip())
        return UserMessage(role="user", content=STOP)


class SimulatedUser:
    """τ²-bench's own simulator with a language model."""

    def __init__(self, settings: UserSettings, task: Any, tools: Any) -> None:
        from tau2.user.user_simulator import UserSimulator

        model = settings.model
        arguments: dict[str, Any] = {
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
        }
        if settings.kind == "local":
            from turnpoint.envs.tau2.local_user import PROVIDER, register

            register()
            model = f"{PROVIDER}/{settings.model}"
        else:
            arguments |= {"timeout": settings.seconds, "num_retries": 2}
            if settings.base_url:
                key = os.environ.get(settings.api_key_env, "none")
                arguments |= {"api_base": settings.base_url, "api_key": key}
        self.simulator = UserSimulator(
            tools=tools, instructions=str(task.user_scenario), llm=model, llm_args=arguments
        )

    def next_message(self, messages: Sequence[Any]) -> Any:
        """Raises ``EnvError`` with whatever the server or the model answered."""
        from tau2.user.base import is_valid_user_history_message

        heard = [message for message in messages if is_valid_user_history_message(message)]
        state = self.simulator.get_init_state(heard[:-1])
        try:
            said, _ = self.simulator.generate_next_message(heard[-1], state)
        except Exception as error:
            raise EnvError(f"the simulated customer failed: {type(error).__name__}: {error}") from error
        if not said.content and not said.tool_calls:
            raise EnvError("the simulated customer said nothing")
        return said


def is_stop(message: Any) -> bool:
    """Whether a customer's message ends the conversation."""
    from tau2.user.user_simulator import UserSimulator

    return bool(UserSimulator.is_stop(message))


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _arguments(body: str) -> dict[str, Any]:
    """Arguments written as ``name=value``; values as JSON, else as they stand."""
    arguments: dict[str, Any] = {}
    for part in _split(body):
        name, equals, value = part.partition("=")
        if equals:
            arguments[name.strip()] = _value(value.strip())
    return arguments


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text.strip("'\""))


def _results(messages: Sequence[Any]) -> str:
    """What the customer's tools answered since it last spoke."""
    results: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        results.insert(0, str(message.content))
    return "\n".join(results)


def _scenario(task: Any) -> tuple[str, str]:
    """What the customer says first, and the facts it can repeat."""
    told = task.user_scenario.instructions
    if isinstance(told, str):
        return told, ""
    facts = told.known_info or ""
    return "\n".join(filter(None, [told.reason_for_call, facts, told.task_instructions])), facts
