"""GRPO against PivotOPD with K = 0, 1, 2 on the same budget: success and recovery rate over seeds.

    python -m benchmarks.pivotopd --out runs/pivotopd --seeds 0 1 2 --steps 20

Every seed has one warm start, shared by all methods, and all methods see the same tasks. Success is measured
on the same held-out games; recovery by replaying each final agent from the first mistakes that the warm-started
agent made on these games. Finished runs are kept, so a stopped benchmark goes on with the next.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.runs import markdown_table, records, train_all, training_options, turnpoint

METHODS: dict[str, tuple[str, ...]] = {
    "GRPO": ("method.kind=grpo", "method.normalise=mean"),
    "PivotOPD K=0": ("method.recovery_turns=0",),
    "PivotOPD K=1": ("method.recovery_turns=1",),
    "PivotOPD K=2": ("method.recovery_turns=2",),
}


def main() -> None:
    """Train, replay, and print the table."""
    parser = training_options(__doc__, "runs/pivotopd", tasks=200)
    parser.add_argument("--recipe", default="recipes/quickstart.yaml")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--replays", type=int, default=4)
    options = parser.parse_args()
    steps = f"train.steps={options.steps}"
    runs = train_all(options, {m: (options.recipe, (steps, *own)) for m, own in METHODS.items()})
    rows = [[method, *summary(found, options)] for method, found in runs.items()]
    before = [records(run, "eval")[0]["success"]["mean"] for run in runs["GRPO"]]
    print(f"success of the warm starts: {spread(before)}\n")
    header = ["method", "success after", "recovered from mistakes", "interactions a step", "seconds a step"]
    print(markdown_table(header, rows))


def summary(runs: list[Path], options: argparse.Namespace) -> list[str]:
    """Cells of one method: means over seeds with their range."""
    success = [records(run, "eval")[-1]["success"]["mean"] for run in runs]
    recovered = [recovery(run, options) for run in runs]
    steps = [record for run in runs for record in records(run, "train")]
    interactions = np.mean([record["interactions"] for record in steps])
    seconds = np.mean([record["seconds"] for record in steps])
    return [spread(success), spread(recovered), f"{interactions:.0f}", f"{seconds:.1f}"]


def recovery(run: Path, options: argparse.Namespace) -> float:
    """Recovery rate of a run's last checkpoint from its warm start's first mistakes; kept beside the run."""
    kept = run / "recovery.json"
    if not kept.exists():
        mistakes = run / "eval" / "step_000000.jsonl"
        kept.write_text(
            turnpoint("recover", str(run), str(mistakes), "--replays", str(options.replays),
                      "--limit", str(options.mistakes), "--json")
        )  # fmt: skip
    return float(json.loads(kept.read_text())["rate"]["mean"])


def spread(values: list[float]) -> str:
    """Mean over seeds, and every seed's value."""
    each = ", ".join(f"{100 * value:.1f}" for value in values)
    return f"{100 * np.mean(values):.1f} % ({each})"


if __name__ == "__main__":
    main()
