"""``turnpoint replay``: counterfactual replays of recorded failures (PivotOPD, Figure 1b)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnpoint.cli.common import fail, print_json, user_faults
from turnpoint.cli.tables import percent, show_table
from turnpoint.cli.targets import mistakes_of, refuse_taken, show_left_out


def replay(
    run_folder: Annotated[Path, typer.Argument(help="A run folder; its newest checkpoint plays.")],
    episodes: Annotated[Path, typer.Argument(help="Episodes (JSONL) whose failures are replayed.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each failure and condition.")] = 4,
    after: Annotated[
        list[int] | None, typer.Option(min=1, help="For how many turns the oracle helps after the mistake.")
    ] = None,
    condition: Annotated[list[str] | None, typer.Option(help="Only these conditions.")] = None,
    knowledge: Annotated[
        Literal["full", "observed"], typer.Option(help="What the oracle may use when it acts.")
    ] = "full",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many failures.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of the run.")] = None,
    initial: Annotated[bool, typer.Option(help="Play with the initial weights.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the replays to this new JSONL file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Which intervention would have saved a failure: none, another try, or an oracle's turn here or there.

    Example: turnpoint replay runs/quickstart runs/quickstart/eval/step_000000.jsonl --replays 8
    """
    with user_faults():
        from turnpoint.cli.runs import open_run
        from turnpoint.pivots.counterfactual import (
            Played,
            conditions,
            counterfactual_report,
            play_conditions,
        )
        from turnpoint.records import EpisodeWriter
        from turnpoint.training.evaluate import eval_rollouts

        refuse_taken(out, "--out")
        chosen = conditions(after or (2, 3))
        unknown = set(condition or ()) - {c.name for c in chosen}
        if unknown:
            fail(f"no condition is called '{min(unknown)}'; there are {', '.join(c.name for c in chosen)}")
        chosen = [c for c in chosen if not condition or c.name in condition]
        mistakes, left_out = mistakes_of(episodes, limit)
        run = open_run(run_folder, overrides or [], checkpoint, initial=initial)
        rollouts = eval_rollouts(run, run.config.eval, prefix="replay")

        async def play() -> Played:
            try:
                return await play_conditions(rollouts, mistakes, chosen, replays, knowledge=knowledge)
            finally:
                await rollouts.close()

        played = asyncio.run(play())
        report = counterfactual_report(mistakes, chosen, played).as_dict()
        report["left_out"] = left_out
        if out is not None:
            with EpisodeWriter(out) as writer:
                for found in played.values():
                    for several in found:
                        for one in dict.fromkeys(map(id, several)):
                            writer.write(next(e for e in several if id(e) == one))
    if as_json:
        print_json(report)
        return
    show_replays(report)


def show_replays(report: dict[str, Any]) -> None:
    """Success by condition."""
    show_table(
        f"{report['failures']} failures x {report['replays']} replays (95 % intervals over failures)",
        ["intervention", "success", "against none", "failures", "without an outcome"],
        [
            (
                c["title"],
                percent(c["success"]),
                percent(c["gain"]),
                str(c["failures"]),
                ", ".join(f"{k}: {v}" for k, v in c["excluded"].items()) or "–",
            )
            for c in report["conditions"].values()
        ],
    )
    show_left_out(report["left_out"])
