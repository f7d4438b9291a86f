"""Read a teacher's report on an episode, and its recovery actions (PivotOPD, *report* and *recovery*).

Replies are parsed tolerantly and in linear time: nothing a teacher writes raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from turnpoint.prompts.reply import drop_reasoning, parse_action

_OPEN = r"<correct_action\b([^<>]{0,200})>"
_CLOSE = r"</\s*correct_action\s*>"
_BLOCK = re.compile(f"{_OPEN}|({_CLOSE})", re.IGNORECASE)
_QUOTES = r"\s\\\"'`“”‘’„«»"
_STEP = re.compile(rf"\b(?:step|turn)\s*=[{_QUOTES}]*([^{_QUOTES}]*)", re.IGNORECASE)
_FENCE = re.compile(r"```+|~~~+")
_INDEX = re.compile(r"[0-9]{1,9}")
_SUMMARY = ("summary", "episode_summary")
_LESSON = ("lesson", "episode_lesson")
_TURN_LESSONS = ("turn_lessons", "step_lessons")
_MAX_STARTS = 32
"""Fenced blocks, and then braces, at which a JSON object is tried; bounds the work on hostile text."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn named as pivotal and the action that should have been taken there, as the teacher wrote it."""

    turn: int
    action: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a teacher said about one episode."""

    summary: str = ""
    lesson: str | None = None
    turn_lessons: dict[int, str] = field(default_factory=dict)
    """Lesson of single turns, by 0-based turn."""
    candidates: list[Candidate] = field(default_factory=list)
    """At most ``max_pivots``, turns all different, in the teacher's order."""


def parse_report(text: str, n_turns: int, max_pivots: int) -> Report | None:
    """Read a report; None if it has neither a usable JSON object nor a gold action.

    The JSON is the last fenced object, else the first one in the text; gold actions come from
    ``<correct_action step="N">…</correct_action>``. Turns that are no integer in ``0..n_turns-1`` or that
    were named before are dropped; with lessons for single turns, only turns that have both stay.
    """
    text = drop_reasoning(text)
    data = _find_object(text)
    gold = _gold_actions(text, n_turns)
    if data is None and not gold:
        return None
    data = data or {}
    lessons = _turn_lessons(_first(data, _TURN_LESSONS), n_turns)
    chosen = [turn for turn in gold if turn in lessons or not lessons]
    return Report(
        summary=_text(_first(data, _SUMMARY)),
        lesson=_text(_first(data, _LESSON)) or None,
        turn_lessons=lessons,
        candidates=[Candidate(turn, gold[turn]) for turn in chosen[: max(max_pivots, 0)]],
    )


def parse_recovery(text: str) -> str | None:
    """The action of a *recovery* reply: its ``<action>`` block, else a gold-action block, else None."""
    named = parse_action(text, tags=True)
    if named is not None:
        return named
    blocks = [action for _, action in _blocks(drop_reasoning(text))]
    return blocks[-1] if blocks else None


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Attributes and content of each complete, non-blank gold-action block, in order."""
    attributes, start = "", -1
    for tag in _BLOCK.finditer(text):
        if tag.group(2) is None:
            attributes, start = tag.group(1), tag.end()
        elif start >= 0:
            action = _clean(text[start : tag.start()])
            start = -1
            if action:
                yield attributes, action


def _gold_actions(text: str, n_turns: int) -> dict[int, str]:
    gold: dict[int, str] = {}
    for attributes, action in _blocks(text):
        step = _STEP.search(attributes.replace("&quot;", '"'))
        turn = _turn(step.group(1), n_turns) if step else None
        if turn is not None:
            gold.setdefault(turn, action)
    return gold


def _turn(value: Any, n_turns: int) -> int | None:
    """``value`` as a 0-based turn; None unless it is an integer in range (any quoting if it is text)."""
    if isinstance(value, str):
        digits = value.strip()
        value = int(digits) if _INDEX.fullmatch(digits) else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < n_turns else None


def _turn_lessons(value: Any, n_turns: int) -> dict[int, str]:
    """Lessons by turn, from ``{"3": "…"}`` or ``[{"turn": 3, "lesson": "…"}]``."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        items = [item for item in value if isinstance(item, dict)]
        pairs = [(item.get("turn", item.get("step")), item.get("lesson")) for item in items]
    lessons: dict[int, str] = {}
    for key, lesson in pairs:
        turn, said = _turn(key, n_turns), _text(lesson)
        if turn is not None and said:
            lessons.setdefault(turn, said)
    return lessons


def _find_object(text: str) -> dict[str, Any] | None:
    """The last fenced JSON object, else the first one anywhere; None if no object has a field of a report."""
    for part in reversed(_FENCE.split(text)[1::2][-_MAX_STARTS:]):
        data = _decode(part, part.find("{"))
        if data is not None:
            return data
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        data = _decode(text, start)
        if data is not None or start < 0:
            return data
    return None


_DECODER = json.JSONDecoder(strict=False)


def _decode(text: str, start: int) -> dict[str, Any] | None:
    if start < 0:
        return None
    try:
        data, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    known = (*_SUMMARY, *_LESSON, *_TURN_LESSONS)
    return data if isinstance(data, dict) and any(key in data for key in known) else None


def _first(data: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((data[name] for name in names if name in data), None)


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = " ".join(value)
    return _clean(value) if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """Stripped, and without lone surrogates, which no file or tokenizer accepts."""
    return text.strip().encode("utf-8", "replace").decode("utf-8")
