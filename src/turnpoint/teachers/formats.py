"""Answers as JSON that the endpoint enforces, where a model does not keep to the written form by itself.

The question stays the same; a line says which JSON object is wanted, and the answer is put back into the written form,
so that it is read by the same rules as any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from turnpoint.records import Message

ReplyFormat = Literal["text", "json_object", "json_schema", "tool"]


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of answer."""

    name: str
    schema: dict[str, Any]
    line: str
    """What the question says about it."""
    written: Callable[[dict[str, Any]], str]
    """The object in the written form."""


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _listed(second: str) -> dict[str, Any]:
    return {"type": "array", "items": _object({"turn": {"type": "integer"}, second: {"type": "string"}})}


def _written_report(data: dict[str, Any]) -> str:
    told = {name: data.get(name, "") for name in ("summary", "lesson")} | {
        "turn_lessons": data.get("turn_lessons", [])
    }
    actions = data.get("correct_actions")
    blocks = [
        f'<correct_action step="{entry.get("turn")}">{entry.get("action")}</correct_action>'
        for entry in (actions if isinstance(actions, list) else [])
        if isinstance(entry, dict)
    ]
    return "\n".join([f"```json\n{json.dumps(told)}\n```", *blocks])


REPORT = Form(
    "report",
    _object(
        {
            "summary": {"type": "string"},
            "lesson": {"type": "string"},
            "turn_lessons": _listed("lesson"),
            "correct_actions": _listed("action"),
        }
    ),
    'Give both parts as one JSON object and nothing else: {"summary": "...", "lesson": "...", "turn_lessons": '
    '[{"turn": <number>, "lesson": "..."}], "correct_actions": [{"turn": <number>, "action": "..."}]}',
    _written_report,
)
ACTION = Form(
    "next_action",
    _object({"action": {"type": "string"}}),
    'Give it as one JSON object and nothing else, without tags: {"action": "..."}',
    lambda data: f"<action>{data.get('action', '')}</action>",
)


def form_of(messages: Sequence[Message]) -> Form | None:
    """Which kind of answer a question asks for; None for one that has no form."""
    last = messages[-1].content
    if "<correct_action " in last:
        return REPORT
    return ACTION if "<action>...</action>" in last else None


def with_line(messages: Sequence[Message], form: Form) -> list[Message]:
    """The question with the line that says which object is wanted."""
    return [*messages[:-1], replace(messages[-1], content=f"{messages[-1].content}\n\n{form.line}")]


def fields(form: Form, how: ReplyFormat) -> dict[str, Any]:
    """Fields of the request body that make the endpoint enforce the form."""
    if how == "json_object":
        return {"response_format": {"type": "json_object"}}
    if how == "json_schema":
        schema = {"name": form.name, "schema": form.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    function = {"name": form.name, "description": "Gives the answer.", "parameters": form.schema}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": form.name}},
    }


def written(text: str, form: Form) -> str:
    """A reply in the written form; one that is no JSON object stays as it is."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return form.written(data) if isinstance(data, dict) else text
