"""Pivotal turns in miniature: the papers' Figures 1b, 1c, 5b and the table of detectors, for one small agent.

python -m benchmarks.pivots RUN                    # a finished run, for example runs/quickstart
python -m benchmarks.pivots RUN --limit 5 --replays 1 --samples 1     # minimal

RUN's first evaluation (before training) gives the failures; its newest checkpoint and its initial weights play.
Prints Markdown; every call's JSON lies in --out, and calls that are there already are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.runs import markdown_table, turnpoint


def main() -> None:
    """Make all four."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--limit", type=int, default=60, help="failures that are replayed")
    parser.add_argument("--replays", type=int, default=8)
    parser.add_argument("--samples", type=int, default=5, help="reports and reflections of each episode")
    parser.add_argument("--episodes", type=Path, help="episodes to take failures from")
    parser.add_argument("--initial", action="store_true", help="replay with the initial weights too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.out = options.out or options.run / "pivots"
    episodes = options.episodes or sorted((options.run / "eval").glob("step_??????.jsonl"))[0]
    print(figure_1b(options, episodes), figure_1c(options), figure_5b(options, episodes), sep="\n\n")
    print("\n" + detector_table(options, episodes))


def call(options: argparse.Namespace, name: str, *arguments: object) -> dict[str, Any]:
    """The JSON of a command, kept in the output folder."""
    path = options.out / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = turnpoint(*map(str, arguments), "--json", log=options.out / f"{name}.log")
        path.write_text(text)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def figure_1b(options: argparse.Namespace, episodes: Path) -> str:
    """Success of counterfactual replays by intervention."""
    found = call(
        options, "replay", "replay", options.run, episodes, "--replays", options.replays, "--limit", options.limit
    )  # fmt: skip
    rows = [(c["title"], share(c["success"]), share(c["gain"])) for c in found["conditions"].values()]
    title = f"Counterfactual replays of {found['failures']} failures x {found['replays']}"
    return f"{title}\n\n" + markdown_table(["intervention", "success", "against none"], rows)


def figure_1c(options: argparse.Namespace) -> str:
    """Failures with and without a pivot over training."""
    found = call(options, "training", "diagnose", options.run, "--detector", "oracle", "--part", "eval")
    rows = [
        (
            step,
            share(f.get("success")),
            share(f.get("failed_with_pivot")),
            share(f.get("failed_without_pivot")),
        )
        for step, f in found["by_step"].items()
    ]
    return "Held-out episodes over training\n\n" + markdown_table(
        ["step", "success", "failed with a pivot", "failed without one"], rows
    )


def figure_5b(options: argparse.Namespace, episodes: Path) -> str:
    """Recovery from mistakes before and after training."""
    common = ["recover", options.run, episodes, "--replays", options.replays, "--limit", options.limit]
    against = ["--against", "initial"] if options.initial else []
    found = call(options, "recover", *common, *against)
    rows = [("after training", share(found["rate"]), *(within(found, n) for n in (4, 8, 12)))]
    if options.initial:
        base = found["against"]
        rows.insert(0, ("initial weights", share(base["rate"]), *(within(base, n) for n in (4, 8, 12))))
    pairs = found.get("paired")
    note = (
        ""
        if not pairs
        else f"\n\nImproved {pairs['improved']}, worse {pairs['worse']}, same {pairs['same']}."
    )
    head = ["policy", "recovered", "within 4 turns", "within 8", "within 12"]
    return "Recovery from first mistakes\n\n" + markdown_table(head, rows) + note


def detector_table(options: argparse.Namespace, episodes: Path) -> str:
    """Agreement of every detector that the run can ask with the first oracle pivot."""
    found = call(
        options, "detectors", "diagnose", episodes, "--ask", "--run", options.run, "--limit", 4 * options.limit,
        "--detector", "report", "--detector", "reflection", "--detector", "hinted",
        f"report.samples={options.samples}", f"reflection.samples={options.samples}",
    )  # fmt: skip
    rows = [
        (
            name,
            share(d.get("agreement")),
            share(d.get("chance")),
            share(d.get("precision")),
            share(d.get("recall")),
        )
        for name, d in found["detectors"].items()
        if name != "oracle"
    ]
    head = ["detector", "agreement within 1 turn", "random turns", "precision", "recall"]
    return "Detectors against the first oracle pivot\n\n" + markdown_table(head, rows)


def within(report: dict[str, Any], n: int) -> str:
    """Share recovered in at most n turns."""
    curve = report["within"]
    return f"{100 * curve[min(n, len(curve) - 1)]:.1f} %"


def share(value: dict[str, Any] | None) -> str:
    """A share with its interval."""
    if value is None:
        return "–"
    return f"{100 * value['mean']:.1f} % [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


if __name__ == "__main__":
    main()
