"""PivoARL, MetaRL, GiGPO and PivoARL's ablations at equal interactions: success within 1, 2 and 3 attempts.

    python -m benchmarks.chains --seeds 0 1 2 --interactions 20000

Every seed has one warm start, shared by all methods, whose reflections name the wrong turn in about half of the
cases. A run ends with the step that brings the turns played in training to the budget. Evaluation: the same
held-out boards for all, up to three attempts each, which are a method's own chains (independent for GiGPO).
Finished runs are kept, so a stopped benchmark goes on with the next.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.outcomes import cell, difference, evaluations, over_seeds
from benchmarks.runs import markdown_table, records, train_all, training_options
from turnpoint.pivots import first_oracle_pivot
from turnpoint.records import EpisodeReader

RECIPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "GiGPO": ("gigpo", ()),
    "MetaRL": ("metarl", ()),
    "PivoARL": ("pivoarl", ()),
    "PivoARL without isolation": ("pivoarl", ("method.ablation=without_isolation",)),
    "PivoARL without pivot": ("pivoarl", ("method.ablation=without_pivot",)),
    "PivoARL without reflection": ("pivoarl", ("method.ablation=without_reflection",)),
}
ATTEMPTS = (1, 2, 3)


def main() -> None:
    """Train, and print two tables."""
    parser = training_options(__doc__, "runs/chains")
    parser.add_argument("--env", default="minesweeper", choices=["minesweeper", "sokoban"])
    parser.add_argument("--methods", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--interactions", type=int, default=20_000)
    options = parser.parse_args()
    budget = (f"train.interactions={options.interactions}", "train.steps=100000", "eval.attempts=3")
    chosen = {method: RECIPES[method] for method in options.methods}
    runs = train_all(
        options,
        {m: (f"recipes/{recipe}_{options.env}.yaml", (*budget, *own)) for m, (recipe, own) in chosen.items()},
    )
    first = runs[options.methods[0]]
    print(f"warm starts, first attempts: {cell(over_seeds(first, last=False))} %\n")
    print(markdown_table(HEADER, [[method, *summary(runs[method])] for method in runs]))
    if "PivoARL" in runs:
        print("\nPivoARL minus the others, in points, over the same boards:\n")
        header = ["against", *(f"success@{k}" for k in ATTEMPTS)]
        rows = [[m, *differences(runs["PivoARL"], runs[m])] for m in runs if m != "PivoARL"]
        print(markdown_table(header, rows))


HEADER = [
    "method", "success@1", "success@2", "success@3", "turns for an evaluated task", "interactions a step", "steps",
    "valid reflections, first to last step", "reflections that name the wrong turn",
]  # fmt: skip


def summary(runs: list[Path]) -> list[str]:
    """Cells of one method: means over seeds, in brackets each seed's."""
    success = [cell(over_seeds(runs, k)) for k in ATTEMPTS]
    turns = np.mean([records(run, "eval")[-1]["interactions"]["mean"] for run in runs])
    steps = [records(run, "train") for run in runs]
    a_step = np.mean([step["interactions"] for run in steps for step in run])
    valid = [[step["reflections_valid"] for step in run if "reflections_valid" in step] for run in steps]
    shown = "–"
    if all(valid):
        shown = f"{100 * np.mean([v[0] for v in valid]):.0f} to {100 * np.mean([v[-1] for v in valid]):.0f} %"
    counts = ", ".join(str(len(run)) for run in steps)
    return [*success, f"{turns:.1f}", f"{a_step:.0f}", counts, shown, accuracy(runs)]


def accuracy(runs: list[Path]) -> str:
    """Share of reflections in the first and in the last evaluations that name the first oracle pivot."""
    shares = []
    for at in (0, -1):
        right = [hit for run in runs for hit in _hits(evaluations(run)[at])]
        shares.append(f"{100 * np.mean(right):.0f}" if right else "")
    return f"{shares[0]} to {shares[1]} %" if all(shares) else "–"


def _hits(file: Path) -> list[float]:
    hits = []
    for episode in EpisodeReader(file):
        if episode.reflection is not None and episode.reflection.pivot is not None:
            pivot = first_oracle_pivot(episode)
            if pivot is not None:
                hits.append(float(episode.reflection.pivot == pivot))
    return hits


def differences(mine: list[Path], other: list[Path]) -> list[str]:
    """Paired differences for each number of attempts."""
    return [difference(over_seeds(mine, k), over_seeds(other, k)) for k in ATTEMPTS]


if __name__ == "__main__":
    main()
