"""The outcome of a run in words: success before and after, from the records in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnpoint.teachers.spending import spent_text
from turnpoint.training.metrics import read_metrics
from turnpoint.training.view import percent


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """Evaluation records of a run, in order of steps."""
    return [record for record in read_metrics(folder / "metrics.jsonl") if record["kind"] == "eval"]


def interval_text(value: dict[str, Any]) -> str:
    """``61.0% [52.0%, 70.0%]``."""
    return f"{percent(value['mean'])} [{percent(value['low'])}, {percent(value['high'])}]"


def spent_lines(records: list[dict[str, Any]]) -> list[str]:
    """What each teacher cost in the whole run, from the records of its steps."""
    last: dict[str, Any] = next(
        (record for record in reversed(records) if record.get("kind", "train") == "train"), {}
    )
    accounts: dict[str, dict[str, float]] = {}
    for name, value in last.items():
        if name.startswith("spent/") and name.count("/") == 2 and value is not None:
            _, section, what = name.split("/")
            accounts.setdefault(section, {})[what] = value
    return [
        f"{section} used {spent_text(totals)}" for section, totals in accounts.items() if any(totals.values())
    ]


def outcome_lines(folder: Path) -> list[str]:
    """Success before and after training with 95 % intervals, how the agent behaves now, and what teachers cost."""
    spent = spent_lines(read_metrics(folder / "metrics.jsonl"))
    return [*_success_lines(evaluations(folder)), *spent]


def _success_lines(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"evaluation at step {record['step']}: no episode has an outcome ({record['stops']})"
        for record in found
        if "success" not in record
    ]
    found = [record for record in found if "success" in record]
    if not found:
        return lines
    first, last = found[0], found[-1]
    lines += [
        f"held-out success before training (step {first['step']}): {interval_text(first['success'])}",
        f"held-out success after training (step {last['step']}):  {interval_text(last['success'])}",
    ]
    if last["success"]["low"] > first["success"]["high"]:
        lines.append("the gain is clear of both 95 % intervals")
    return [*lines, *summary_lines(last)]


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Behaviour beyond success, one line for each figure that was measured."""
    lines = [
        f"  {name or 'all tasks'}: {interval_text(value)} (n={value['n']})"
        for name, value in summary["by_type"].items()
    ]
    if "score" in summary:
        lines.append(f"mean score: {interval_text(summary['score'])}")
    turns = summary["turns"]
    lines.append(f"mean turns: {turns['mean']:.1f} [{turns['low']:.1f}, {turns['high']:.1f}]")
    for k, value in summary.get("success_at", {}).items():
        lines.append(f"success within {k} attempt{'s' if k != '1' else ''}: {interval_text(value)}")
    rates = {
        "turns without a parsable action": summary["invalid_rate"],
        "actions the environment did not accept": summary["ineffective_rate"],
        "actions repeated in the same state": summary["repeated_rate"],
    }
    lines += [f"{name}: {percent(value)}" for name, value in rates.items()]
    if "pivot_rate" in summary:
        lines.append(f"episodes with an oracle pivot: {interval_text(summary['pivot_rate'])}")
    if "recovered" in summary:
        lines.append(f"solved in spite of a pivot: {interval_text(summary['recovered'])}")
    if "wasted_turns" in summary:
        lines.append(f"turns after the first pivot of failed episodes: {summary['wasted_turns']['mean']:.1f}")
    return lines
