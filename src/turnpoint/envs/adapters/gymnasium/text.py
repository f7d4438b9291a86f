"""Observations and actions of Gymnasium's spaces as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from turnpoint.envs.adapters.gymnasium.toys import Toy
from turnpoint.envs.adapters.loading import is_path, load
from turnpoint.envs.protocol import EnvDataError

Show = Callable[[Any, Any, dict[str, Any]], Any]
"""(environment, observation, info) to text."""
Read = Callable[[Any, str], Any]
"""(environment, text) to an action; None if the text is none."""

_MARKED = re.compile(r"(?:\x1b\[[0-9;]*m)+([^\x1b]+)(?:\x1b\[0m)+")
_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def plain(drawing: str) -> str:
    """A drawing for terminals without its codes; what was coloured stands in brackets."""
    text = _MARKED.sub(lambda found: f"[{found.group(1)}]", drawing)
    return _CODE.sub("", text).strip("\n")


def make_show(chosen: str, env: Any, toy: Toy | None) -> Show:
    """How observations are written. Raises ``EnvDataError`` if they cannot be written as was chosen."""
    import gymnasium

    if is_path(chosen):
        function: Show = load(chosen, "env.observation")
        return function
    if chosen == "auto" and toy is not None and toy.words is not None:
        return partial(_with_words, toy.words)
    textual = isinstance(env.observation_space, gymnasium.spaces.Text)
    if chosen == "auto":
        chosen = "text" if textual else "ansi" if env.render_mode == "ansi" else "values"
    if chosen == "text" and not textual:
        raise EnvDataError(
            f"env.observation is text, but the environment's observations are {env.observation_space}; use ansi, "
            "values or a function"
        )
    if chosen == "ansi" and env.render_mode != "ansi":
        raise EnvDataError(
            "env.observation is ansi, but the environment does not draw itself as text; use values"
        )
    return {"text": _text, "ansi": _ansi, "values": _values}[chosen]


def _text(env: Any, observation: Any, info: dict[str, Any]) -> Any:
    return observation


def _ansi(env: Any, observation: Any, info: dict[str, Any]) -> Any:
    drawing = env.render()
    return plain(drawing) if isinstance(drawing, str) else drawing


def _with_words(words: Callable[[Any, Any], str], env: Any, observation: Any, info: dict[str, Any]) -> Any:
    return f"{_ansi(env, observation, info)}\n{words(env, observation)}"


def _values(env: Any, observation: Any, info: dict[str, Any]) -> str:
    return json.dumps(as_json(observation))


def as_json(value: Any) -> Any:
    """Arrays as lists, tuples and dicts as they are; whatever else there is as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def make_read(chosen: list[str] | str, known: tuple[str, ...], env: Any) -> tuple[Read, tuple[str, ...]]:
    """How actions are read, and the names of all of them where they are finitely many.

    Raises ``EnvDataError`` if the space is neither discrete nor text and no function reads it.
    """
    import gymnasium

    space = env.action_space
    if isinstance(chosen, str):
        function: Read = load(chosen, "env.actions")
        return function, ()
    if isinstance(space, gymnasium.spaces.Text):
        if chosen:
            raise EnvDataError(
                "env.actions names actions, but the environment takes any text; leave it empty"
            )
        return _any_text, ()
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise EnvDataError(
            f"the environment's actions are {space}, which have no names; set env.actions to a module:function that "
            "makes an action of (environment, text)"
        )
    count, first = int(space.n), int(space.start)
    names = tuple(chosen or (known if len(known) == count else map(str, range(first, first + count))))
    if len(names) != count:
        raise EnvDataError(f"env.actions has {len(names)} names, but the environment has {count} actions")
    numbers = {name.strip().lower(): first + index for index, name in enumerate(names)}
    return lambda env, text: numbers.get(text.strip().lower()), names


def _any_text(env: Any, text: str) -> str | None:
    return text if env.action_space.contains(text) else None
