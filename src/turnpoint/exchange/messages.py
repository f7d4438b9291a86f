"""Chat messages of any tool as turns of an episode, and back.

A turn is one assistant message; what stands before it since the last one (user and tool messages) is its observation.
Content parts, reasoning and tool calls become text; the whole conversation stays in ``Turn.messages``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnpoint.exchange.lines import Json, loads
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, Message, Observation, StopReason, Task, Turn

ROLES = ("system", "developer", "user", "tool", "function", "assistant")
_STOPS = {reason.value: reason for reason in StopReason}
_CUT_OFF = re.compile(r"(?<![a-z])(?:max|length|limit|truncat|exceed)")
"""How words for a cut-off begin: ``max_turns``, ``length``, ``message_limit``; not ``end_turn`` or ``returned``."""


def text_of(content: Any, report: ExchangeReport) -> str:
    """The text of a message's content: a string, a list of parts, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, Sequence):
        return str(content)
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, Mapping) and isinstance(part.get("reasoning"), str):
            texts.append(f"<think>{part['reasoning']}</think>")
        else:
            kind = str(part.get("type", "part")) if isinstance(part, Mapping) else type(part).__name__
            report.changed[f"content part of type {kind[:40]}"] += 1
            texts.append(f"[{kind[:40]}]")
    return "\n".join(texts)


def call_text(call: Any, report: ExchangeReport) -> str:
    """A tool call as ``name(arguments)``."""
    if not isinstance(call, Mapping):
        return str(call)
    inner = call.get("function")
    body: Mapping[str, Any] = inner if isinstance(inner, Mapping) else call
    name = body.get("name") or body.get("function_name") or (inner if isinstance(inner, str) else "tool")
    arguments = body.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = loads(arguments, report)
        except ValueError:
            return f"{name}({arguments})"
    return f"{name}({json.dumps(arguments, ensure_ascii=False, sort_keys=True)})"


def assistant_text(message: Mapping[str, Any], report: ExchangeReport) -> tuple[str, str | None]:
    """Response text (reasoning and tool calls included) and the action: the tool calls, else the last line."""
    parts = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning.strip():
        parts.append(f"<think>{reasoning}</think>")
    content = text_of(message.get("content"), report)
    if content:
        parts.append(content)
    raw = message.get("tool_calls")
    calls = [call_text(_parsed(call, report), report) for call in raw] if isinstance(raw, list) else []
    parts += [f"<tool_call>{call}</tool_call>" for call in calls]
    response = "\n".join(parts)
    return response, "; ".join(calls) if calls else _said(content)


def _parsed(call: Any, report: ExchangeReport) -> Any:
    if isinstance(call, str):
        try:
            return loads(call, report)
        except ValueError:
            return call
    return call


def _said(content: str) -> str | None:
    """The action of a reply without tool calls: between action tags, else all that follows the reasoning."""
    start, end = content.rfind("<action>"), content.rfind("</action>")
    if 0 <= start < end:
        return content[start + 8 : end].strip() or None
    rest = content.rsplit("</think>", 1)[-1].strip()
    return rest or None


def turns_of(messages: Sequence[Any], report: ExchangeReport) -> tuple[list[Turn], Observation | None]:
    """Turns of a conversation, and what stands after the last one. Raises ``ValueError`` if one is no message."""
    turns: list[Turn] = []
    so_far: list[Message] = []
    seen: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.get("role") not in ROLES:
            role = message.get("role") if isinstance(message, Mapping) else type(message).__name__
            raise ValueError(f"message {number} has no known role ({str(role)[:40]})")
        role = str(message["role"])
        if role != "assistant":
            text = text_of(message.get("content"), report)
            so_far.append(Message(role, text))
            if role not in ("system", "developer"):
                seen.append(text)
            continue
        response, action = assistant_text(message, report)
        turns.append(
            Turn(
                index=len(turns),
                observation=Observation("\n".join(seen)),
                messages=tuple(so_far),
                response=response,
                action=action,
                executed=action or "",
            )
        )
        so_far.append(Message("assistant", response))
        seen = []
    return turns, Observation("\n".join(seen)) if seen else None


def episode_of(
    name: str,
    messages: Sequence[Any],
    report: ExchangeReport,
    *,
    env: str,
    task: str | None = None,
    kind: str = "",
    reward: float | None = None,
    success: bool | None = None,
    stop: str = "",
    error: str = "",
    data: Mapping[str, Any] | None = None,
    info: Json | None = None,
    step: int = 0,
) -> Episode:
    """A conversation as an episode. Raises ``ValueError`` if it has no assistant message.

    ``success`` None and a ``reward``: solved if the reward is at least 1, unless ``stop`` or ``error`` say that there
    is no outcome. ``stop``: the value of a ``StopReason``, or the other tool's word for why it ended; one that means a
    cut-off becomes ``MAX_TURNS``.
    """
    turns, final = turns_of(messages, report)
    if not turns:
        raise ValueError("no assistant message")
    reason, success = _ending(stop.strip().lower(), success, reward, bool(error))
    if reward is not None:
        turns[-1].reward = float(reward)
    turns[-1].done = not error and reason in (StopReason.SUCCESS, StopReason.FAILURE, StopReason.BRANCH_END)
    first = next((m for m in turns[0].messages if m.role == "user"), None)
    instruction = " ".join((first.content if first else "").split())[:300]
    return Episode(
        id=name,
        task=Task(task or name, env, instruction=instruction, type=kind, data=dict(data or {})),
        turns=turns,
        stop=reason,
        success=success,
        final_observation=final,
        error=error[:2000],
        step=step,
        info=info or {},
    )


def _ending(
    stop: str, success: bool | None, reward: float | None, failed: bool
) -> tuple[StopReason, bool | None]:
    """Why an episode ended, and its outcome; one of which nothing is known is a ``BRANCH_END``."""
    known = _STOPS.get(stop)
    if success is None and known is not None and not known.has_outcome:
        return known, None
    if success is None and failed:
        return StopReason.ENV_ERROR, None
    if success is None and known in (StopReason.SUCCESS, StopReason.FAILURE):
        success = known is StopReason.SUCCESS
    if success is None and reward is not None:
        success = reward >= 1.0
    if success is None:
        return StopReason.BRANCH_END, None
    if success:
        return StopReason.SUCCESS, True
    if known in (StopReason.MAX_TURNS, StopReason.CONTEXT_LIMIT):
        return known, False
    return (StopReason.MAX_TURNS if _CUT_OFF.search(stop) else StopReason.FAILURE), False


def outcome(value: Any, report: ExchangeReport) -> bool | None:
    """An outcome as other tools write it: true, a number that is at least 1, or the word; None where there is none."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    if isinstance(value, bool):
        return value
    found = number(value)
    if found is None and value is not None:
        report.changed["outcome that is neither a truth value nor a number"] += 1
    return None if found is None else found >= 1.0


def set_tokens(turn: Turn, prompt: Any, response: Any, logprobs: Any, report: ExchangeReport) -> None:
    """Token ids and log-probs of a turn as another tool recorded them; what does not fit is counted."""
    ids, before = _ints(response, report), _ints(prompt, report)
    if ids:
        turn.response_ids, turn.prompt_ids = ids, before
    if not logprobs:
        return
    if not isinstance(logprobs, list) or len(logprobs) != len(ids):
        report.changed["log-probs of another length than the tokens"] += 1
        return
    values = [found for value in logprobs if (found := number(value)) is not None]
    if len(values) == len(ids):
        turn.logprobs = tuple(values)
    else:
        report.changed["log-probs that are no numbers"] += 1


def _ints(value: Any, report: ExchangeReport) -> tuple[int, ...]:
    """Token ids, or nothing."""
    if isinstance(value, list) and all(type(item) is int for item in value):
        return tuple(value)
    if value:
        report.changed["token ids that are no whole numbers"] += 1
    return ()


def conversation(episode: Episode) -> list[Json]:
    """The whole conversation of an episode as role/content messages, the final observation included.

    Roles that no other tool knows are ``user``. Raises ``ValueError`` without turns.
    """
    if not episode.turns:
        raise ValueError("no turns")
    last = episode.turns[-1]
    messages = [{"role": m.role if m.role in ROLES else "user", "content": m.content} for m in last.messages]
    if not messages or not _is_conversation(episode):
        messages = _rebuilt(episode)
    messages.append({"role": "assistant", "content": last.response or last.executed})
    if episode.final_observation is not None:
        messages.append({"role": "user", "content": episode.final_observation.text})
    return messages


def _is_conversation(episode: Episode) -> bool:
    """Whether the last prompt holds every earlier reply (a prompt of its own for each turn does not)."""
    replies = [m.content for m in episode.turns[-1].messages if m.role == "assistant"]
    return replies == [turn.response for turn in episode.turns[:-1]]


def _rebuilt(episode: Episode) -> list[Json]:
    lead = f"{episode.task.instruction}\n" if episode.task.instruction else ""
    messages: list[Json] = []
    for turn in episode.turns[:-1]:
        messages += [
            {"role": "user", "content": lead + turn.observation.text},
            {"role": "assistant", "content": turn.response or turn.executed},
        ]
        lead = ""
    return [*messages, {"role": "user", "content": lead + episode.turns[-1].observation.text}]


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        return float(value)
    return None


def first_number(values: Iterable[Any]) -> float | None:
    """The first finite number."""
    return next((found for value in values if (found := number(value)) is not None), None)
