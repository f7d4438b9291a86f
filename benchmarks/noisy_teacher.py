"""What a teacher that errs does to PivotOPD, and what votes, trials and judged reliability make of it.

    python -m benchmarks.noisy_teacher --seeds 0 1 --steps 8

The oracle names mistakes and actions; a share of the actions (``--errors``) is replaced by wrong ones, drawn anew for
every answer. Every seed has one warm start, shared by all runs, which see the same tasks. Beside held-out success the
table shows how many actions were distilled and which share of a sample of them the oracle confirms, judged in all runs
alike. Finished runs are kept, so a stopped benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.outcomes import cell, difference, over_seeds
from benchmarks.runs import Job, markdown_table, records, run_all

VOTES = ("method.consistency.samples=5",)
TRIALS = ("method.verify.level=moves",)
RUNS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "exact teacher": (False, ()),
    "errs": (True, ()),
    "errs, five votes": (True, VOTES),
    "errs, trials": (True, TRIALS),
    "errs, votes and trials": (True, (*VOTES, *TRIALS)),
    "errs, weighed by reliability": (True, ("method.reliability.weigh=true",)),
}


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/noisy_teacher"))
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--errors", type=float, default=0.4, help="share of named actions that are wrong")
    parser.add_argument("--tasks", type=int, default=200, help="held-out games of the evaluation")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--set", nargs="*", default=[], help="further overrides for every run")
    options = parser.parse_args()
    jobs = [
        Job(
            f"{slug(name)}-{seed}",
            options.recipe,
            (f"seed={seed}", f"train.steps={options.steps}", f"eval.tasks={options.tasks}", "eval.every=0",
             "train.checkpoint_every=0", "train.save_episodes=false", "method.reliability.per_step=32",
             *((f"teacher.error.actions={options.errors}",) if RUNS[name][0] else ()), *RUNS[name][1],
             *options.set),
        )
        for seed in options.seeds
        for name in options.runs
    ]  # fmt: skip
    folders = run_all(jobs, options.out, processes=options.processes)
    runs = {name: [folders[f"{slug(name)}-{seed}"] for seed in options.seeds] for name in options.runs}
    before = [
        records(runs[options.runs[0]][i], "eval")[0]["success"]["mean"] for i in range(len(options.seeds))
    ]
    print("success of the warm starts: " + ", ".join(f"{100 * value:.1f} %" for value in before) + "\n")
    header = ["teacher", "success after", "points over errs", "pivots distilled", "of these right",
              "recovery turns right", "interactions a step", "trials a step", "teacher calls a step"]  # fmt: skip
    base = over_seeds(runs["errs"]) if "errs" in runs else None
    rows = []
    for name, found in runs.items():
        outcomes = over_seeds(found)
        over = "–" if base is None or name == "errs" else difference(outcomes, base)
        rows.append([name, cell(outcomes), over, *counts(found)])
    print(markdown_table(header, rows))


def slug(name: str) -> str:
    """A folder name."""
    return name.replace(",", "").replace(" ", "-")


def counts(runs: list[Path]) -> list[str]:
    """Cells of one teacher: means over steps and seeds; shares as estimated at the end of each run."""
    steps = [record for run in runs for record in records(run, "train")]
    ends = [records(run, "train")[-1] for run in runs]

    def mean(*names: str) -> str:
        return f"{np.mean([sum(step.get(name, 0.0) for name in names) for step in steps]):.0f}"

    def share(kind: str) -> str:
        return f"{100 * np.mean([end[f'reliability/{kind}'] for end in ends]):.0f} %"

    return [
        mean("pivots_used"),
        share("used"),
        share("recovery"),
        mean("interactions"),
        mean("verify/interactions"),
        mean("teacher/reports", "teacher/recoveries"),
    ]


if __name__ == "__main__":
    main()
