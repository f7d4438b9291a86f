"""verifiers' saved results: ``prompt`` and ``completion`` message lists with reward and metrics, one rollout a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, episodes, records, write_lines
from turnpoint.exchange.messages import conversation, episode_of, first_number
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

_KNOWN = {"id", "example_id", "prompt", "completion", "task", "answer", "info", "reward", "metrics", "error",
          "is_completed", "is_truncated", "stop_condition", "timing", "trajectory", "state", "turnpoint"}  # fmt: skip


def matches(record: Json) -> bool:
    """A prompt and a completion, and a reward or an example id."""
    return (
        isinstance(record.get("completion"), str | list)
        and isinstance(record.get("prompt"), str | list)
        and ("reward" in record or "example_id" in record)
    )


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a results file."""

    def convert(where: str, record: Json) -> list[Episode]:
        if not matches(record):
            raise ValueError("no prompt, completion and reward")
        own = _loaded(record.get("turnpoint"))
        own = own if isinstance(own, dict) else {}
        metrics = record.get("metrics")
        extra = {
            k: v for k, v in record.items() if k not in _KNOWN and isinstance(v, int | float | str | bool)
        }
        for name in record.keys() - _KNOWN - extra.keys():
            report.changed[f"field '{str(name)[:40]}'"] += 1
        example = record.get("example_id", record.get("id"))
        stop = str(record.get("stop_condition") or ("truncated" if record.get("is_truncated") else ""))
        episode = episode_of(
            str(own.get("id") or where),
            [*_messages(record["prompt"], "user"), *_messages(record["completion"], "assistant")],
            report,
            env=str(own.get("env") or record.get("task") or "verifiers"),
            task=str(own.get("task") or (where if example is None else f"example-{example}")),
            kind=str(own.get("type") or record.get("task") or ""),
            reward=first_number((record.get("reward"),)),
            success=own.get("success") if isinstance(own.get("success"), bool) else None,
            stop=stop,
            info={
                "source": "verifiers",
                **extra,
                **({"metrics": metrics} if isinstance(metrics, dict) else {}),
            },
            data={k: record[k] for k in ("answer", "info") if record.get(k) not in (None, "", {}, "{}")},
        )
        if record.get("error"):
            episode.error = str(record["error"])[:2000]
        return [episode]

    return episodes(records(path, report), report, convert)


def _messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        loaded = _loaded(value)
        return loaded if isinstance(loaded, list) else [{"role": role, "content": value}]
    return list(value)


def _loaded(value: Any) -> Any:
    """Some versions save nested values as JSON text."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One rollout a line; what the format has no field for stands in ``turnpoint``."""
    examples: dict[str, int] = {}

    def lines() -> Iterator[Json]:
        for episode in found:
            messages = conversation(episode)
            first = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), None)
            if first is None:
                report.drop("no turns", episode.id)
                continue
            report.episodes += 1
            yield {
                "example_id": examples.setdefault(episode.task.id, len(examples)),
                "prompt": messages[:first],
                "completion": messages[first:],
                "task": episode.task.env,
                "answer": "",
                "info": dict(episode.task.data),
                "reward": episode.total_reward,
                "metrics": {"turns": float(len(episode.turns))},
                "is_completed": episode.stop is not None,
                "is_truncated": bool(episode.stop and episode.stop.value == "max_turns"),
                "stop_condition": episode.stop.value if episode.stop else None,
                "turnpoint": {
                    "id": episode.id,
                    "env": episode.task.env,
                    "task": episode.task.id,
                    "type": episode.task.type,
                    "success": episode.success,
                },
            }

    write_lines(lines(), path)
