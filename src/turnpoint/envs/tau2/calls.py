"""Tool calls in a model's reply, in the formats that chat templates teach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>(.*?)(?:</function>\s*|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_LEADS = ("[TOOL_CALLS]", "<|python_tag|>")
_LONGEST = 20_000
_MOST = 16


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply is: calls, else a message to the customer, else a fault."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    fault: str = ""
    """Why it is neither, in words for the agent."""


def parse_reply(reply: str) -> Reply:
    """Read a reply; text beside tool calls is dropped. Nothing a reply holds raises.

    Known are ``<tool_call>`` blocks with JSON (Qwen, Hermes) or with ``<function=...>`` (Qwen-Coder), a list after
    ``[TOOL_CALLS]`` (Mistral), and an object with ``name`` and ``arguments`` or ``parameters`` alone (Llama).
    """
    text = reply.strip()
    if not text:
        return Reply(fault="the reply is empty; send a message or call a tool")
    if len(text) > _LONGEST:
        return Reply(fault=f"the reply is longer than {_LONGEST} characters")
    try:
        calls = tuple(_calls(text))
    except (ValueError, RecursionError) as error:
        return Reply(fault=f"the tool call cannot be read: {error}")
    if len(calls) > _MOST:
        return Reply(fault=f"the reply calls {len(calls)} tools; call at most {_MOST} at a time")
    return Reply(calls=calls) if calls else Reply(text=text)


def render_call(name: str, arguments: dict[str, Any]) -> str:
    """A tool call as Qwen and Hermes write it."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def render_result(content: str) -> str:
    """A tool's answer as those templates show it."""
    return f"<tool_response>\n{content}\n</tool_response>"


def _calls(text: str) -> Iterator[Call]:
    if "<tool_call>" in text:
        for block in _BLOCK.findall(text):
            function = _FUNCTION.match(block)
            yield _from_tags(*function.groups()) if function else _from_json(json.loads(block))
        return
    for lead in _LEADS:
        if lead in text:
            data = json.loads(text.split(lead, 1)[1])
            yield from map(_from_json, data if isinstance(data, list) else [data])
            return
    if text.startswith("{") and text.endswith("}"):
        try:
            data = json.loads(text)
        except ValueError:
            return  # a message may begin with a brace
        if isinstance(data, dict) and "name" in data and ("arguments" in data or "parameters" in data):
            yield _from_json(data)


def _from_json(data: Any) -> Call:
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise ValueError("it must be an object with 'name' and 'arguments'")
    arguments = data.get("arguments", data.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError("'arguments' must be an object")
    return Call(data["name"], arguments)


def _from_tags(name: str, body: str) -> Call:
    return Call(name, {key: _value(text) for key, text in _PARAMETER.findall(body)})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
