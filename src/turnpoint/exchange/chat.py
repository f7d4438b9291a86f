"""OpenAI-style chats: a ``messages`` list a line, as for fine-tuning files; a reward or outcome beside it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, count_unused, episodes, records, write_lines
from turnpoint.exchange.messages import conversation, episode_of, first_number, outcome
from turnpoint.exchange.own import remainder, restored
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

_LISTS = ("messages", "conversation", "conversations", "chat")
_USED = {"id", "task", "task_id", "task_type", "env", "reward", "score", "success", "resolved", "stop_reason",
         "finish_reason", "step", "turnpoint", *_LISTS}  # fmt: skip
_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant"}


def matches(record: Json) -> bool:
    """A list of messages under one of the usual names."""
    return any(isinstance(record.get(name), list) for name in _LISTS)


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a file of chats."""
    return episodes(records(path, report), report, lambda where, record: [convert(where, record, report)])


def convert(where: str, record: Json, report: ExchangeReport, *, source: str = "chat") -> Episode:
    """One chat. Raises ``ValueError`` if it has no messages."""
    messages = next((record[n] for n in _LISTS if isinstance(record.get(n), list)), None)
    if messages is None:
        raise ValueError("no list of messages")
    notes = {name: record[name] for name in ("metadata", "info") if isinstance(record.get(name), dict)}
    count_unused(record, _USED | notes.keys(), report)
    own = record.get("turnpoint")
    success = record.get("success")
    episode = episode_of(
        str(record.get("id") or where),
        [_message(m) for m in messages],
        report,
        env=str(record.get("env") or source),
        task=_text(record.get("task_id") or record.get("task")),
        kind=_text(record.get("task_type")) or "",
        reward=first_number((record.get("reward"), record.get("score"))),
        success=outcome(record.get("resolved") if success is None else success, report),
        stop=str(record.get("stop_reason") or record.get("finish_reason") or ""),
        info={"source": source} | notes.get("metadata", {}) | notes.get("info", {}),
        step=record["step"] if isinstance(record.get("step"), int) else 0,
    )
    return restored(episode, own.get("rest") if isinstance(own, dict) else None, report)


def _message(message: Any) -> Any:
    """Also the from/value form of ShareGPT."""
    if isinstance(message, dict) and "role" not in message and "from" in message:
        role = str(message["from"])
        return {"role": _ROLES.get(role, role), "content": message.get("value")}
    return message


def _text(value: Any) -> str | None:
    return str(value)[:500] if isinstance(value, str | int) else None


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One chat a line, with outcome and reward beside it, and in ``turnpoint`` what chats have no field for."""
    write_lines(found, _record, path, report)


def _record(episode: Episode) -> Json:
    record: Json = {
        "id": episode.id,
        "env": episode.task.env,
        "task_id": episode.task.id,
        "task_type": episode.task.type,
        "messages": conversation(episode),
        "reward": episode.total_reward,
        "success": episode.success,
        "stop_reason": episode.stop.value if episode.stop else None,
        "step": episode.step,
    }
    return record | {"turnpoint": {"rest": remainder(convert("", record, ExchangeReport()), episode)}}
