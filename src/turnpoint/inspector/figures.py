"""What a report says in numbers: curves, the table of steps, outcomes, stop reasons, counts of what was lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from turnpoint.inspector.folder import RunFolder
from turnpoint.inspector.plots import Series, interval_bar, label, line_chart
from turnpoint.inspector.text import clip_note

Record = dict[str, Any]
_MOST_ROWS = 200
_COLUMNS = {
    "episodes": "episodes",
    "success": "success",
    "reward": "reward",
    "turns": "turns",
    "invalid": "invalid",
    "truncated": "truncated",
    "interactions": "interactions",
    "sampled_tokens": "tokens",
    "rows": "rows",
    "pivots_used": "pivots",
    "recovery_tokens": "recovery tokens",
    "update/grad_norm": "grad norm",
    "seconds": "seconds",
}
_SHARES = {"success", "invalid", "truncated"}
_EVENTS = {
    "pivots_named": "pivots named",
    "pivots_used": "pivots used",
    "recovery_jobs": "recovery branches",
    "restarted": "restarts at a pivot",
    "full_restarts": "full restarts",
    "stopped": "stopped early",
}
_JUDGED = {
    "turn": "named turns, within one",
    "action": "actions at them",
    "used": "actions distilled",
    "recovery": "recovery actions",
}
_LOSSES = (
    "dropped",
    "skipped",
    "failed",
    "failures",
    "signal_empty",
    "_over_cap",
    "/not_finite",
    "mismatches",
    "impossible",
    "tasks_without_",
)
"""Parts of the names of metrics that count what was lost."""


def number(record: Record, name: str) -> float | None:
    """A finite number of a record, or None."""
    value = record.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value is not None else None


def interval(value: Any) -> Record | None:
    """``value`` if it is an interval with finite ends, else None."""
    if not isinstance(value, dict) or any(number(value, key) is None for key in ("mean", "low", "high")):
        return None
    return value


def _curve(records: Sequence[Record], name: str, title: str) -> Series:
    return Series(title, [record["step"] for record in records], [number(record, name) for record in records])


def _band(records: Sequence[Record], name: str, title: str) -> Series:
    found = [interval(record.get(name)) for record in records]

    def column(key: str) -> list[float | None]:
        return [None if item is None else float(item[key]) for item in found]

    return Series(
        title, [record["step"] for record in records], column("mean"), column("low"), column("high")
    )


def _reliability(records: Sequence[Record], kind: str, title: str) -> Series:
    """A share estimated over the run so far, with its interval."""
    parts = [f"{name}/{kind}" for name in ("reliability", "reliability_low", "reliability_high")]
    mean, low, high = ([number(record, part) for record in records] for part in parts)
    return Series(title, [record["step"] for record in records], mean, low, high)


def _present(records: Sequence[Record], names: Mapping[str, str], most: int = 4) -> list[Series]:
    """Curves of the first ``most`` metrics that have a value."""
    curves = [_curve(records, name, title) for name, title in names.items()]
    return [curve for curve in curves if curve.points()][:most]


def _names_with(records: Sequence[Record], part: str) -> dict[str, str]:
    return {name: clip_note(name, 40) for name in _names(records) if part in name}


def charts(run: RunFolder) -> list[Markup]:
    """Every curve that has at least one value."""
    train, evals = run.train, run.evals
    made = [
        line_chart(
            "Success",
            [
                _band(evals, "success", "held out, 95 % interval"),
                _curve(train, "success", "training episodes"),
            ],
            percent=True,
        ),
        line_chart("Reward of an episode", [_curve(train, "reward", "mean")]),
        line_chart(
            "Invalid and refused turns",
            [
                _curve(train, "invalid", "invalid, training"),
                _curve(evals, "invalid_rate", "invalid, held out"),
                _curve(train, "truncated", "cut at the token limit"),
                _curve(evals, "ineffective_rate", "not accepted, held out"),
            ],
            percent=True,
        ),
        line_chart("Pivots, recoveries and restarts in a step", _present(train, _EVENTS)),
        line_chart("Success by attempts", _present(train, _names_with(train, "success_at/")), percent=True),
        line_chart("Mean gap to the teacher, nats per token", _present(train, _names_with(train, "_gap"))),
        line_chart(
            "Turns of an episode", [_curve(train, "turns", "training"), _band(evals, "turns", "held out")]
        ),
        line_chart(
            "Oracle pivots, held out",
            [
                _band(evals, "pivot_rate", "episodes with a pivot"),
                _band(evals, "recovered", "solved in spite of one"),
            ],
            percent=True,
        ),
        line_chart(
            "Seconds of a step",
            [
                _curve(train, "seconds", "whole step"),
                _curve(train, "seconds_collect", "collect"),
                _curve(train, "seconds_credit", "credit"),
                _curve(train, "seconds_update", "update"),
            ],
        ),
        line_chart("Gradient norm", [_curve(train, "update/grad_norm", "before clipping")]),
        line_chart(
            "Names of the teacher that are right, by the oracle",
            [_reliability(train, kind, title) for kind, title in _JUDGED.items()],
            percent=True,
        ),
        line_chart(
            "Turns of a recovery branch (K)",
            _present(train, {"recovery_turns": "K", "recovery_turns_wanted": "wanted"}),
        ),
    ]
    return [chart for chart in made if chart]


def share(value: float | None) -> str:
    """A share as a percentage."""
    return "–" if value is None else f"{100 * value:.1f}%"


def interval_cell(value: Any) -> Record | None:
    """Texts and drawing of an interval, or None."""
    found = interval(value)
    if found is None:
        return None
    mean, low, high = (float(found[key]) for key in ("mean", "low", "high"))
    return {
        "mean": share(mean),
        "span": f"[{share(low)}, {share(high)}]",
        "n": found.get("n", "?"),
        "bar": interval_bar(mean, low, high),
    }


def outcome_rows(run: RunFolder) -> list[Record]:
    """Success before and after, overall and by type; empty without evaluations."""
    if not run.evals:
        return []
    first, last = run.evals[0], run.evals[-1]
    rows = [{"name": "all tasks", "before": first.get("success"), "after": last.get("success")}]
    by_first, by_last = (_mapping(record.get("by_type")) for record in (first, last))
    for name in sorted({*by_first, *by_last}):
        rows.append(
            {
                "name": clip_note(name or "(no type)", 120),
                "before": by_first.get(name),
                "after": by_last.get(name),
            }
        )
    if len(rows) == 2:
        rows = rows[:1]  # the only type says the same again
    return [
        {"name": row["name"], "before": interval_cell(row["before"]), "after": interval_cell(row["after"])}
        for row in rows
    ]


def _mapping(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def step_table(train: Sequence[Record]) -> tuple[list[str], list[list[str]], int]:
    """Headings, rows as texts, and each how many steps a row is shown for (1 = all of them)."""
    names = [name for name in _COLUMNS if any(number(record, name) is not None for record in train)]
    every = max(1, math.ceil(len(train) / _MOST_ROWS))
    shown = [record for i, record in enumerate(train) if i % every == 0 or i == len(train) - 1]
    rows = [[str(record["step"]), *(_cell(record, name) for name in names)] for record in shown]
    return ["step", *(_COLUMNS[name] for name in names)], rows, every


def _cell(record: Record, name: str) -> str:
    value = number(record, name)
    if value is None:
        return "–"
    return share(value) if name in _SHARES else label(value) if abs(value) < 1e4 else f"{value:,.0f}"


def stop_table(run: RunFolder) -> list[Record]:
    """Stop reasons over all training steps and in the last evaluation."""
    train: Counter[str] = Counter()
    for record in run.train:
        train.update(_counts(record.get("stops")))
    last = Counter(_counts(run.evals[-1].get("stops"))) if run.evals else Counter[str]()
    totals = max(1, train.total()), max(1, last.total())
    return [
        {
            "name": clip_note(name, 60),
            "train": train[name],
            "train_share": train[name] / totals[0],
            "last": last[name],
            "last_share": last[name] / totals[1],
        }
        for name in sorted({*train, *last}, key=lambda name: (-train[name] - last[name], name))
    ]


def _counts(value: Any) -> dict[str, int]:
    return {str(k): v for k, v in _mapping(value).items() if isinstance(v, int) and not isinstance(v, bool)}


def is_loss(name: str) -> bool:
    """Whether a metric counts something that was dropped, skipped or failed."""
    return any(part in name for part in _LOSSES)


def losses(train: Sequence[Record]) -> list[Record]:
    """Everything dropped, skipped or failed: total, in how many steps, and when last."""
    return _totals(train, (n for n in _names(train) if is_loss(n)))


def recovery_ends(train: Sequence[Record]) -> list[Record]:
    """How recovery branches ended."""
    return _totals(train, (n for n in _names(train) if n.startswith("recovery_ended/")))


def _names(train: Sequence[Record]) -> list[str]:
    return sorted({name for record in train for name in record})


def _totals(train: Sequence[Record], names: Iterable[str]) -> list[Record]:
    rows = []
    for name in names:
        hit = [(record["step"], v) for record in train if (v := number(record, name)) is not None and v]
        if hit:
            rows.append(
                {
                    "name": clip_note(name, 120),
                    "total": f"{sum(v for _, v in hit):,.0f}",
                    "steps": len(hit),
                    "last": hit[-1][0],
                    "warning": name.startswith("signal_empty"),
                }
            )
    return rows
