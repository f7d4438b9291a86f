"""What a teacher that knows more than the student could know does to it: hidden state against what was observed.

    python -m benchmarks.knowledge --seeds 0 1 2 --steps 16

PivotOPD twice: the oracle that names mistakes and gold actions, which the hinted student then scores, knows what the
episode has shown (the default) or the whole hidden state. Every seed has one warm start, shared by all runs;
held-out success of every evaluation is shown.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.outcomes import cell, difference, over_seeds
from benchmarks.runs import markdown_table, records, train_all, training_options

KNOWLEDGE = ("observed", "full")


def main() -> None:
    """Train, and print the table."""
    parser = training_options(__doc__, "runs/knowledge")
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--every", type=int, default=4, help="steps between evaluations")
    options = parser.parse_args()
    common = (f"train.steps={options.steps}", f"eval.every={options.every}")
    runs = train_all(options, {k: (options.recipe, (*common, f"teacher.knowledge={k}")) for k in KNOWLEDGE})
    steps = [record["step"] for record in records(runs["observed"][0], "eval")]
    rows = [
        [name, *curve(found), cell(over_seeds(found)), refused(found), agreement(found)]
        for name, found in runs.items()
    ]
    header = [
        "teacher knows",
        *(f"step {step}" for step in steps),
        "after, each seed",
        "refused actions",
        "hints followed",
    ]
    print(markdown_table(header, rows))
    print(f"\nobserved minus full: {difference(*(over_seeds(runs[k]) for k in KNOWLEDGE))} points")


def curve(runs: list[Path]) -> list[str]:
    """Success at every evaluation, in per cent: mean over seeds."""
    values = [[record["success"]["mean"] for record in records(run, "eval")] for run in runs]
    return [f"{100 * value:.1f}" for value in np.mean(values, axis=0)]


def refused(runs: list[Path]) -> str:
    """Actions the environment did not accept, in the first and in the last evaluations."""
    ends = [[records(run, "eval")[at]["ineffective_rate"] for run in runs] for at in (0, -1)]
    return " to ".join(f"{100 * np.mean(values):.0f}" for values in ends) + " %"


def agreement(runs: list[Path]) -> str:
    """Share of recovery turns in which the hinted student took the named action."""
    values = [step["recovery_agreement"] for run in runs for step in records(run, "train")]
    return f"{100 * np.mean(values):.0f} %"


if __name__ == "__main__":
    main()
