"""What a teacher that errs does to PivotOPD, and what votes, trials and judged reliability make of it.

    python -m benchmarks.noisy_teacher --seeds 0 1 --steps 8

The oracle names mistakes and actions; a share of the actions (``--errors``) is replaced by wrong ones, drawn anew for
every answer. Every seed has one warm start, shared by all runs, which see the same tasks. Beside held-out success the
table shows how many actions were distilled and which share of a sample of them the oracle confirms, judged in all runs
alike. Finished runs are kept, so a stopped benchmark goes on with the next.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.outcomes import cell, difference, over_seeds
from benchmarks.runs import markdown_table, records, train_all, training_options

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
    parser = training_options(__doc__, "runs/noisy_teacher", tasks=200, seeds=(0,), processes=1)
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--errors", type=float, default=0.4, help="share of named actions that are wrong")
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), default=list(RUNS))
    options = parser.parse_args()
    common = (f"train.steps={options.steps}", "method.reliability.per_step=32")
    errors = (f"teacher.error.actions={options.errors}",)
    chosen = {name: RUNS[name] for name in options.runs}
    runs = train_all(
        options,
        {
            n: (options.recipe, (*common, *(errors if errs else ()), *own))
            for n, (errs, own) in chosen.items()
        },
    )
    before = [records(run, "eval")[0]["success"]["mean"] for run in runs[options.runs[0]]]
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
