"""STRIDE against full OPD, Fast OPD, TCOD-F2B and turnOPD at equal interactions, with a larger agent as teacher.

    turnpoint train teacher_household
    python -m benchmarks.distillation --seeds 0 1 2 --interactions 25000

Every seed has one warm start, shared by all methods. A run ends with the step that brings the turns played in
training to the budget. The second table says after how many seconds, tokens and turns of training each method's
evaluations first reach the success that full OPD ends with. Seconds are those of collecting, scoring and
updating, without evaluations. Finished runs are kept, so a stopped benchmark goes on with the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.outcomes import cell, difference, over_seeds
from benchmarks.runs import markdown_table, records, train_all, training_options

METHODS: dict[str, tuple[str, int]] = {
    "OPD": ("opd", 8),
    "Fast OPD": ("fast_opd", 18),
    "TCOD-F2B": ("tcod_f2b", 10),
    "turnOPD": ("turnopd", 10),
    "STRIDE": ("stride", 18),
}
"""Recipe, and steps between evaluations: about as many turns for each."""
COSTS = {"interactions": "interactions", "tokens": "sampled_tokens", "seconds": "seconds"}


def main() -> None:
    """Train, and print the tables."""
    parser = training_options(__doc__, "runs/distillation")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--interactions", type=int, default=25_000)
    options = parser.parse_args()
    budget = (f"train.interactions={options.interactions}", "train.steps=100000")
    chosen = {method: METHODS[method] for method in options.methods}
    runs = train_all(
        options,
        {
            m: (f"recipes/{recipe}_household.yaml", (*budget, f"eval.every={n}"))
            for m, (recipe, n) in chosen.items()
        },
    )
    first = runs[options.methods[0]]
    print(f"warm starts: {cell(over_seeds(first, last=False))} %\n")
    header = ["method", "success after", "points over OPD", "steps", "turns", "tokens", "seconds", "stopped"]
    base = over_seeds(runs["OPD"]) if "OPD" in runs else None
    rows = []
    for method, folders_ in runs.items():
        mine = over_seeds(folders_)
        over = "–" if base is None or method == "OPD" else difference(mine, base)
        rows.append([method, cell(mine), over, *totals(folders_)])
    print(markdown_table(header, rows))
    if "OPD" in runs:
        targets = [records(run, "eval")[-1]["success"]["mean"] for run in runs["OPD"]]
        print("\nUntil an evaluation first reached the success OPD ended with, each seed:\n")
        rows = [[m, *until(found, targets)] for m, found in runs.items()]
        print(markdown_table(["method", *COSTS], rows))


def totals(runs: list[Path]) -> list[str]:
    """Steps, turns, tokens, seconds and the share of rollouts stopped early: means over seeds."""
    steps = [records(run, "train") for run in runs]
    sums = [np.mean([sum(step[name] for step in run) for run in steps]) for name in COSTS.values()]
    stopped = [step["stopped"] for run in steps for step in run if "stopped" in step]
    share = f"{100 * np.mean(stopped):.0f} %" if stopped else "–"
    count = np.mean([len(run) for run in steps])
    return [f"{count:.0f}", *(f"{value:,.0f}" for value in sums), share]


def until(runs: list[Path], targets: list[float]) -> list[str]:
    """What every seed had cost when an evaluation first reached its target; – where none did."""
    found = [reached(run, target) for run, target in zip(runs, targets, strict=True)]
    return [
        ", ".join("–" if costs is None else f"{costs[name]:,.0f}" for costs in found)
        for name in COSTS.values()
    ]


def reached(run: Path, target: float) -> dict[str, float] | None:
    """Costs of training up to the first evaluation at ``target`` or above."""
    steps: list[dict[str, Any]] = records(run, "train")
    for evaluation in records(run, "eval"):
        if evaluation["success"]["mean"] >= target:
            done = [step for step in steps if step["step"] <= evaluation["step"]]
            return {name: float(sum(step[name] for step in done)) for name in COSTS.values()}
    return None


if __name__ == "__main__":
    main()
