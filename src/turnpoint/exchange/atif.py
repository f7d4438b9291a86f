"""ATIF, Harbor's Agent Trajectory Interchange Format: steps of user, agent and system with tool calls and observations.

Token ids and log-probs of agent steps (``metrics``) become those of the turn. Steps that were copied from an earlier
trajectory are reused turns, which nothing trains on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, count_unused, episodes, exported, records, write_lines
from turnpoint.exchange.messages import episode_of, first_number, outcome, set_tokens, text_of
from turnpoint.exchange.own import headline, remainder, restored
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

VERSION = "ATIF-v1.4"
_ROLES = {"user": "user", "system": "system", "agent": "assistant"}
_USED = ("schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics", "extra")
_OUTCOMES = ("reward", "success", "resolved", "turnpoint")


def matches(record: Json) -> bool:
    """A schema version of ATIF, or steps with sources."""
    version, steps = record.get("schema_version"), record.get("steps")
    if isinstance(version, str) and version.upper().startswith("ATIF"):
        return True
    return isinstance(steps, list) and bool(steps) and isinstance(steps[0], dict) and "source" in steps[0]


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of one trajectory file, or of one trajectory a line."""
    return episodes(records(path, report), report, lambda where, record: [convert(where, record, report)])


def convert(where: str, record: Json, report: ExchangeReport) -> Episode:
    """One trajectory. Raises ``ValueError`` if it is none."""
    steps = record.get("steps")
    if not isinstance(steps, list):
        raise ValueError("no steps")
    messages: list[Json] = []
    metrics: list[Mapping[str, Any]] = []
    copied: list[bool] = []
    for number, step in enumerate(steps):
        role = _ROLES.get(str(step.get("source"))) if isinstance(step, Mapping) else None
        if role is None:
            raise ValueError(f"step {number} has no known source")
        messages.append(
            {
                "role": role,
                "content": text_of(step.get("message"), report),
                "reasoning_content": step.get("reasoning_content"),
                "tool_calls": step.get("tool_calls"),
            }
        )
        if role == "assistant":
            found = step.get("metrics")
            metrics.append(found if isinstance(found, Mapping) else {})
            copied.append(step.get("is_copied_context") is True)
        results = _results(step.get("observation"), report)
        if results:
            messages.append({"role": "tool", "content": results})
    extra = record.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    own = extra.get("turnpoint")
    own = own if isinstance(own, dict) else {}
    final = record.get("final_metrics")
    final_extra = (
        final.get("extra") if isinstance(final, Mapping) and isinstance(final.get("extra"), Mapping) else {}
    )
    count_unused(record, _USED, report)
    kept = {name: record[name] for name in ("agent", "final_metrics") if isinstance(record.get(name), dict)}
    others = {name: value for name, value in extra.items() if name not in _OUTCOMES}
    success = own.get("success", extra.get("success", extra.get("resolved")))
    episode = episode_of(
        str(own.get("id") or record.get("session_id") or where),
        messages,
        report,
        env=str(own.get("env") or "atif"),
        task=str(own["task"]) if own.get("task") else None,
        kind=str(own.get("type") or ""),
        reward=first_number((extra.get("reward"), (final_extra or {}).get("reward"))),
        success=outcome(success, report),
        stop=str(own.get("stop") or ""),
        info={"source": "atif", **kept, **({"extra": others} if others else {})},
    )
    for turn, found, reused in zip(episode.turns, metrics, copied, strict=True):
        turn.reused = reused
        set_tokens(
            turn,
            found.get("prompt_token_ids"),
            found.get("completion_token_ids"),
            found.get("logprobs"),
            report,
        )
    return restored(episode, own.get("rest"), report)


def _results(observation: Any, report: ExchangeReport) -> str:
    results = observation.get("results") if isinstance(observation, Mapping) else None
    if not isinstance(results, list):
        return ""
    texts = []
    for result in results:
        if isinstance(result, Mapping):
            if result.get("subagent_trajectory_ref"):
                report.changed["reference to a subagent's trajectory"] += 1
            texts.append(text_of(result.get("content"), report))
    return "\n".join(texts)


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One trajectory as a JSON file, or one a line for several episodes in a ``.jsonl``."""
    if path.suffix == ".jsonl":
        write_lines(found, trajectory, path, report)
        return
    kept = [record for record, _ in exported(found, trajectory, report)]
    data: Any = kept[0] if len(kept) == 1 else kept
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1, default=str), encoding="utf-8")


def trajectory(episode: Episode) -> Json:
    """An episode as an ATIF trajectory. Raises ``ValueError`` without turns."""
    if not episode.turns:
        raise ValueError("no turns")
    steps: list[Json] = [
        {"source": "system", "message": m.content} for m in episode.turns[0].messages if m.role == "system"
    ]
    first = episode.turns[0]
    opening = next((m.content for m in first.messages if m.role == "user"), "") or first.observation.text
    steps.append({"source": "user", "message": opening})
    for place, turn in enumerate(episode.turns):
        step: Json = {"source": "agent", "message": turn.response or turn.executed}
        if turn.response_ids:
            step["metrics"] = {
                "completion_token_ids": list(turn.response_ids),
                "prompt_token_ids": list(turn.prompt_ids),
                **({"logprobs": list(turn.logprobs)} if turn.logprobs else {}),
            }
        after = (
            episode.turns[place + 1].observation
            if place + 1 < len(episode.turns)
            else episode.final_observation
        )
        if turn.reused:
            step["is_copied_context"] = True
        if after is not None:
            step["observation"] = {"results": [{"content": after.text}]}
        steps.append(step)
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    own = headline(episode)
    record: Json = {
        "schema_version": VERSION,
        "session_id": episode.id,
        "agent": {"name": "turnpoint", "version": "1"},
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)},
        "extra": {
            "reward": episode.total_reward,
            "turnpoint": own,
        },
    }
    own["rest"] = remainder(convert("", record, ExchangeReport()), episode)
    return record


__all__ = ["convert", "matches", "read", "trajectory", "write"]
