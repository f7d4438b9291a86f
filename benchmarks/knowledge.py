"""What a teacher that knows more than the student could know does to it: hidden state against what was observed.

    python -m benchmarks.knowledge --seeds 0 1 2 --steps 16

PivotOPD twice: the oracle that names mistakes and gold actions, which the hinted student then scores, knows what the
episode has shown (the default) or the whole hidden state. Every seed has one warm start, shared by all runs;
held-out success of every evaluation is shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.outcomes import cell, difference, over_seeds
from benchmarks.runs import Job, markdown_table, records, run_all

KNOWLEDGE = ("observed", "full")


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/knowledge"))
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--every", type=int, default=4, help="steps between evaluations")
    parser.add_argument("--tasks", type=int, default=300, help="held-out games of the evaluation")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], help="further overrides for every run")
    options = parser.parse_args()
    jobs = [
        Job(
            f"{knowledge}-{seed}",
            options.recipe,
            (f"seed={seed}", f"train.steps={options.steps}", f"eval.tasks={options.tasks}",
             f"eval.every={options.every}", "train.checkpoint_every=0", "train.save_episodes=false",
             f"teacher.knowledge={knowledge}", *options.set),
        )
        for seed in options.seeds
        for knowledge in KNOWLEDGE
    ]  # fmt: skip
    folders = run_all(jobs, options.out, processes=options.processes)
    runs = {k: [folders[f"{k}-{seed}"] for seed in options.seeds] for k in KNOWLEDGE}
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
