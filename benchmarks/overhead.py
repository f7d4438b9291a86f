"""Step time of PivotOPD with K = 0, 1, 2, 3 over GRPO, on the same episodes.

    python -m benchmarks.overhead --steps 8

With a learning rate of 0 every run plays the same episodes in every step, so the difference is what the terms
cost. Runs are made one after the other, rounds of all methods repeat, and the ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.runs import Job, markdown_table, records, run_all

METHODS: dict[str, tuple[str, ...]] = {
    "GRPO": ("method.kind=grpo", "method.normalise=mean"),
    **{f"PivotOPD K={k}": (f"method.recovery_turns={k}",) for k in range(4)},
}
PARTS = ("seconds_collect", "seconds_credit", "seconds_update")


def main() -> None:
    """Run all methods in rounds and print ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], help="further overrides for every run")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {method: [] for method in options.methods}
    parts: dict[str, list[list[float]]] = {method: [] for method in options.methods}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for method, overrides in ((name, METHODS[name]) for name in options.methods):
                common = (f"train.steps={options.steps}", "policy.optimizer.lr=0", "policy.optimizer.lr_rest=0",
                          "eval.before=false", "eval.every=0", "eval.tasks=2", "train.checkpoint_every=0",
                          "train.save_episodes=false")  # fmt: skip
                job = Job(
                    f"{number}-{method.split()[-1]}", options.recipe, (*common, *overrides, *options.set)
                )
                run = run_all([job], Path(folder), processes=1)[job.name]
                steps = records(run, "train")[1:]  # the first step warms caches up
                seconds[method].append(float(np.mean([step["seconds"] for step in steps])))
                parts[method].append([float(np.mean([step[part] for step in steps])) for part in PARTS])
    rows = []
    for method in options.methods:
        ratios = [
            mine / base for mine, base in zip(seconds[method], seconds[options.methods[0]], strict=True)
        ]
        collect, credit, update = np.mean(parts[method], axis=0)
        rows.append(
            [method, f"{np.median(seconds[method]):.2f}", f"{100 * (np.median(ratios) - 1):+.1f} %",
             f"{100 * (min(ratios) - 1):+.1f} … {100 * (max(ratios) - 1):+.1f} %",
             f"{collect:.2f} / {credit:.2f} / {update:.2f}"]
        )  # fmt: skip
    print(
        markdown_table(
            ["method", "seconds a step", f"over {options.methods[0]}", "range", "collect / credit / update"],
            rows,
        )
    )


if __name__ == "__main__":
    main()
