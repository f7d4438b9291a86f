"""verifiers' saved results: ``prompt`` and ``completion`` message lists with reward and metrics, one rollout a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, count_unused, episodes, loads, records, write_lines
from turnpoint.exchange.messages import conversation, episode_of, first_number, number, outcome, set_tokens
from turnpoint.exchange.own import remainder, restored
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, StopReason

_USED = {"id", "example_id", "prompt", "completion", "task", "answer", "info", "reward", "metrics", "error",
         "is_completed", "is_truncated", "stop_condition", "timing", "trajectory", "turnpoint"}  # fmt: skip


def matches(record: Json) -> bool:
    """A prompt and a completion, and a reward or an example id."""
    return (
        isinstance(record.get("completion"), str | list)
        and isinstance(record.get("prompt"), str | list)
        and ("reward" in record or "example_id" in record)
    )


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a results file."""
    return episodes(records(path, report), report, lambda where, record: [convert(where, record, report)])


def convert(where: str, record: Json, report: ExchangeReport) -> Episode:
    """One rollout. Raises ``ValueError`` if it is none."""
    if not matches(record):
        raise ValueError("no prompt, completion and reward")
    own = _loaded(record.get("turnpoint"), report)
    own = own if isinstance(own, dict) else {}
    metrics = record.get("metrics")
    extra = {k: v for k, v in record.items() if k not in _USED and isinstance(v, int | float | str | bool)}
    count_unused(record, _USED | extra.keys(), report)
    example = record.get("example_id", record.get("id"))
    stop = str(record.get("stop_condition") or ("truncated" if record.get("is_truncated") else ""))
    given = _loaded(record.get("info"), report)
    if own and isinstance(given, dict):
        data: Json = given
    else:
        data = {
            k: v for k, v in (("answer", record.get("answer")), ("info", given)) if v not in (None, "", {})
        }
    episode = episode_of(
        str(own.get("id") or where),
        [*_messages(record["prompt"], "user", report), *_messages(record["completion"], "assistant", report)],
        report,
        env=str(own.get("env") or record.get("task") or "verifiers"),
        task=str(own.get("task") or (where if example is None else f"example-{example}")),
        kind=str(own.get("type") or record.get("task") or ""),
        reward=first_number((record.get("reward"),)),
        success=outcome(own.get("success"), report),
        stop=stop,
        error=_error(record.get("error")),
        info={"source": "verifiers", **extra, **({"metrics": metrics} if isinstance(metrics, dict) else {})},
        data=data,
    )
    episode.seconds = _seconds(record.get("timing"), report)
    _read_steps(episode, record.get("trajectory"), report)
    return restored(episode, own.get("rest"), report)


def _error(error: Any) -> str:
    """What went wrong: a text, or the error and its chain."""
    if isinstance(error, dict):
        return str(error.get("error_chain_repr") or error.get("error") or error)
    return str(error or "")


def _seconds(timing: Any, report: ExchangeReport) -> float:
    total = number(timing.get("total_ms")) if isinstance(timing, dict) else None
    if total is None and timing:
        report.changed["field 'timing' without total_ms"] += 1
    return (total or 0.0) / 1000


def _read_steps(episode: Episode, steps: Any, report: ExchangeReport) -> None:
    """Token ids and log-probs of saved steps (the state column ``trajectory``), where there is one for each turn."""
    if not steps:
        return
    if not isinstance(steps, list) or len(steps) != len(episode.turns):
        report.changed["field 'trajectory' whose steps are not the turns"] += 1
        return
    for turn, step in zip(episode.turns, steps, strict=True):
        tokens = step.get("tokens") if isinstance(step, dict) else None
        if isinstance(tokens, dict):
            ids, logprobs = tokens.get("completion_ids"), tokens.get("completion_logprobs")
            set_tokens(turn, tokens.get("prompt_ids"), ids, logprobs, report)
            turn.truncated = tokens.get("is_truncated") is True


def _messages(value: Any, role: str, report: ExchangeReport) -> list[Any]:
    if isinstance(value, str):
        loaded = _loaded(value, report)
        return loaded if isinstance(loaded, list) else [{"role": role, "content": value}]
    return list(value)


def _loaded(value: Any, report: ExchangeReport) -> Any:
    """Some versions save nested values as JSON text."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return loads(value, report)
        except ValueError:
            return value
    return value


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One rollout a line; what the format has no field for stands in ``turnpoint``."""
    examples: dict[str, int] = {}

    def make(episode: Episode) -> Json:
        messages = conversation(episode)
        first = next(i for i, m in enumerate(messages) if m["role"] == "assistant")
        own = {
            "id": episode.id,
            "env": episode.task.env,
            "task": episode.task.id,
            "type": episode.task.type,
            "success": episode.success,
        }
        record: Json = {
            "example_id": examples.setdefault(episode.task.id, len(examples)),
            "prompt": messages[:first],
            "completion": messages[first:],
            "task": episode.task.env,
            "answer": "",
            "info": dict(episode.task.data),
            "reward": episode.total_reward,
            "metrics": {"turns": float(len(episode.turns))},
            "error": episode.error or None,
            "is_completed": episode.stop is not None,
            "is_truncated": episode.stop in (StopReason.MAX_TURNS, StopReason.CONTEXT_LIMIT),
            "stop_condition": episode.stop.value if episode.stop else None,
            "turnpoint": own,
        }
        own["rest"] = remainder(convert("", record, ExchangeReport()), episode)
        return record

    write_lines(found, make, path, report)
