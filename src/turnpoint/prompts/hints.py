"""Privileged text: hints, lessons and remarks; where they go in a prompt, and how leaks are found.

A hint or lesson is only ever in the prompt that a sample or a teacher score is taken under; training prompts
are checked to be free of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from turnpoint.records import Message

REMARK_LIMIT = 2000
"""Longest remark in characters (PivoARL)."""

GENERIC_REFLECTION = (
    "Before you decide, look back at what has happened so far: check whether the last steps brought you "
    "closer to the goal, and choose the action that makes the most progress from here."
)
"""Stands in for the hint where an ablation takes the gold action away (``hints_without_gold``)."""

_LEAK = re.compile(
    r"\bhint(?:s|ed)?\b"
    r"|\bsuggest(?:s|ed|ing|ion|ions)?\b"
    r"|\brecommend(?:s|ed|ing|ation|ations)?\b"
    r"|\binstruct(?:s|ed|ion|ions)?\b"
    r"|\badvi(?:ce|se|sed)\b"
    r"|\bguidance\b"
    r"|\b(?:provided|proposed|supplied|given|stated|reasonable)\s{1,4}(?:\w{1,20}\s{1,4})?"
    r"(?:approach|action|step|plan|strategy|solution|answer|move|command)\b"
    r"|\bas\s{1,4}(?:\w{1,20}\s{1,4})?(?:told|directed)\b|\bi\s{1,4}(?:was|am|have\s{1,4}been)\s{1,4}told\b",
    re.IGNORECASE,
)


class PrivilegedTextError(ValueError):
    """A hint or lesson stands in a prompt that is to be trained on."""


def hint_text(action: str) -> str:
    """The hint for a gold action: names it, asks for own reasoning and silence about it (PivotOPD)."""
    return (
        f"A reasonable approach in this situation is the action: {action}\n"
        "Work out from scratch, in your own style, why an action makes sense here, as if you had thought of "
        "it yourself. Never mention this note or that an approach was named to you."
    )


def lesson_text(lesson: str) -> str:
    """An episode lesson as it stands in the prompt."""
    return f"A lesson from an earlier attempt at this task: {lesson}"


def remark_text(remark: str, number: int) -> str:
    """Remark ``number`` (1-based) of earlier attempts as it stands in the prompt, cut at 2,000 characters."""
    return f"Remark {number} from your earlier attempt: {remark.strip()[:REMARK_LIMIT]}"


def correction_text(gold: str, executed: str | None = None) -> str:
    """A lesson or remark that names the action ``gold``, and the one taken in its place."""
    return f"Do {gold}." if executed is None else f"Do {gold} instead of {executed}."


def leaks(response: str) -> bool:
    """Whether a response acknowledges a hint, suggestion, provided approach or instruction."""
    return _LEAK.search(response) is not None


def insert_hint(messages: Sequence[Message], hint: str, turn_line: str) -> tuple[Message, ...]:
    """Put ``hint`` before the last ``turn_line`` of the last user message; with an empty line, at its end.

    Raises ``ValueError`` if there is no such message or line.
    """
    at = next((i for i in reversed(range(len(messages))) if messages[i].role == "user"), None)
    if at is None:
        raise ValueError("a hint goes into the last user message; these messages have none")
    content = messages[at].content
    cut = content.rfind(turn_line) if turn_line else len(content)
    if cut < 0:
        raise ValueError(f"the last user message has no line {turn_line!r} to put the hint before")
    lead = "" if not cut or content[:cut].endswith("\n") else "\n"
    tail = f"\n{content[cut:]}" if content[cut:] else ""
    return _with_content(messages, at, f"{content[:cut]}{lead}{hint.strip()}{tail}")


def insert_lesson(messages: Sequence[Message], lesson: str, task_marker: str) -> tuple[Message, ...]:
    """Put ``lesson`` on its own line after the task line: the first line of a user message that starts with
    ``task_marker``. Raises ``ValueError`` if no line does."""
    for at, message in enumerate(messages):
        if message.role != "user":
            continue
        start = _line_start(message.content, task_marker)
        if start is not None:
            end = message.content.find("\n", start)
            end = len(message.content) if end < 0 else end
            content = f"{message.content[:end]}\n{lesson.strip()}{message.content[end:]}"
            return _with_content(messages, at, content)
    raise ValueError(f"no user message has a task line that starts with {task_marker!r}")


def assert_unhinted(messages: Sequence[Message], hints: Iterable[str | None]) -> None:
    """Raise ``PrivilegedTextError`` if one of ``hints`` (hints, lessons) stands in a message.

    Replies are the policy's own words, whatever they say, and not looked at: a small model may well make up a
    line that reads like a hint.
    """
    for hint in hints:
        wanted = (hint or "").strip()
        for index, message in enumerate(messages):
            if wanted and message.role != "assistant" and wanted in message.content:
                where = f"{message.role} message {index} of a training prompt"
                raise PrivilegedTextError(f"{where} holds privileged text: {wanted[:80]!r}")


def _line_start(text: str, marker: str) -> int | None:
    if text.startswith(marker):
        return 0
    found = text.find("\n" + marker)
    return None if found < 0 else found + 1


def _with_content(messages: Sequence[Message], at: int, content: str) -> tuple[Message, ...]:
    changed = replace(messages[at], content=content, token_ids=None)
    return (*messages[:at], changed, *messages[at + 1 :])
