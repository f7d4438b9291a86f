"""``turnpoint compare``: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import print_json, user_faults
from turnpoint.cli.tables import mean, percent, show_table
from turnpoint.cli.targets import show_notes

if TYPE_CHECKING:
    from turnpoint.inspector.comparison import ComparedRun


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, the baseline first.")],
    out: Annotated[Path | None, typer.Option(help="Write a page (.html).")] = None,
    svg: Annotated[Path | None, typer.Option(help="Folder for the curves as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Folder for the curves as PNG (needs matplotlib).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Learning curves over steps, interactions, tokens and seconds; final figures; paired tests.

    Example: turnpoint compare runs/grpo runs/pivotopd --out compare.html
    """
    with user_faults():
        from turnpoint.inspector.compare_page import write_comparison, write_pngs, write_svgs
        from turnpoint.inspector.comparison import as_dict, read_runs

        found = read_runs(runs)
        files = [] if out is None else [write_comparison(found, out)]
        files += [] if svg is None else write_svgs(found, svg)
        files += [] if png is None else write_pngs(found, png)
    if as_json:
        print_json({**as_dict(found), "files": [str(path) for path in files]})
        return
    _show(found)
    show_notes([f"{run.name}: {problem}" for run in found for problem in run.run.problems])
    for path in files:
        typer.echo(str(path))


def _show(runs: list[ComparedRun]) -> None:
    from turnpoint.inspector.compare_page import sparkline
    from turnpoint.inspector.comparison import AXES, pairings

    rows = []
    for run in runs:
        final, spent = run.final(), run.spent()
        used = [spent[kind] for kind in AXES]
        rows.append(
            (
                run.name,
                sparkline(run.curve("success", "steps")) or "–",
                percent(final.get("success")),
                percent(final.get("recovered")),
                mean(final.get("turns")),
                *("–" if value is None else f"{value:,.0f}" for value in used),
            )
        )
    show_table(
        "Last evaluation (95 % intervals over tasks), and what training used",
        ["run", "held-out success", "success", "solved in spite of a pivot", "turns", *AXES],
        rows,
    )
    pairs = pairings(runs)
    if len(runs) > 1 and not pairs:
        typer.echo(
            "No two of these runs share held-out episodes (same environment, task and number of turns), so none are "
            "paired; evaluate them with the same env section and eval.tasks."
        )
    if pairs:
        show_table(
            "The same held-out episodes, paired (p: exact McNemar test)",
            ["from", "to", "success, points", "better", "worse", "episodes", "p"],
            [
                (
                    pair.first,
                    pair.second,
                    f"{100 * pair.gain.mean:+.1f} [{100 * pair.gain.low:+.1f}, {100 * pair.gain.high:+.1f}]",
                    str(pair.better),
                    str(pair.worse),
                    str(pair.gain.n),
                    "<0.001" if pair.p < 0.001 else f"{pair.p:.3f}",
                )
                for pair in pairs
            ],
        )
