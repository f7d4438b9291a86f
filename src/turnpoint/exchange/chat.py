"""OpenAI-style chats: a ``messages`` list a line, as for fine-tuning files; a reward or outcome beside it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, episodes, records, write_lines
from turnpoint.exchange.messages import conversation, episode_of, first_number
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

_LISTS = ("messages", "conversation", "conversations", "chat")
_KNOWN = {"id", "task", "task_id", "task_type", "env", "reward", "score", "success", "resolved", "stop_reason",
          "finish_reason", "step", "info", "metadata"}  # fmt: skip
_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant"}


def matches(record: Json) -> bool:
    """A list of messages under one of the usual names."""
    return any(isinstance(record.get(name), list) for name in _LISTS)


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a file of chats."""

    def convert(where: str, record: Json) -> list[Episode]:
        messages = next((record[n] for n in _LISTS if isinstance(record.get(n), list)), None)
        if messages is None:
            raise ValueError("no list of messages")
        for name in record.keys() - _KNOWN - set(_LISTS):
            report.changed[f"field '{str(name)[:40]}'"] += 1
        outcome = record.get("success", record.get("resolved"))
        return [
            episode_of(
                str(record.get("id") or where),
                [_message(m) for m in messages],
                report,
                env=str(record.get("env") or "chat"),
                task=_text(record.get("task_id") or record.get("task")),
                kind=_text(record.get("task_type")) or "",
                reward=first_number((record.get("reward"), record.get("score"))),
                success=outcome if isinstance(outcome, bool) else None,
                stop=str(record.get("stop_reason") or record.get("finish_reason") or ""),
                info={"source": "chat"} | _mapping(record.get("info") or record.get("metadata")),
                step=record["step"] if isinstance(record.get("step"), int) else 0,
            )
        ]

    return episodes(records(path, report), report, convert)


def _message(message: Any) -> Any:
    """Also the from/value form of ShareGPT."""
    if isinstance(message, dict) and "role" not in message and "from" in message:
        role = str(message["from"])
        return {"role": _ROLES.get(role, role), "content": message.get("value")}
    return message


def _text(value: Any) -> str | None:
    return str(value)[:500] if isinstance(value, str | int) else None


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One chat a line, with outcome and reward beside it."""

    def lines() -> Iterator[Json]:
        for episode in found:
            if not episode.turns:
                report.drop("no turns", episode.id)
                continue
            report.episodes += 1
            yield {
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

    write_lines(lines(), path)
