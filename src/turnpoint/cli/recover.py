"""``turnpoint recover``: replay a policy from recorded mistakes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnpoint.cli.common import fail, print_json, user_faults
from turnpoint.cli.targets import mistakes_of, refuse_taken, show_left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnpoint.pivots.recovery import Mistake
    from turnpoint.training.run import Run


def recover(
    run_folder: Annotated[Path, typer.Argument(help="A run folder; its newest checkpoint plays.")],
    mistakes: Annotated[
        Path, typer.Argument(help="Episodes (JSONL) whose first oracle pivots are the mistakes.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each mistake.")] = 8,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many mistakes.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of the run.")] = None,
    initial: Annotated[
        bool, typer.Option(help="Play with the initial weights, not with a checkpoint.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare with this too: 'initial', a checkpoint folder, or the --json of another call."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the replays to this new JSONL file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """How often, how soon and how directly a policy still solves the task after a recorded mistake.

    Example: turnpoint recover runs/quickstart runs/quickstart/eval/step_000000.jsonl --against initial
    """
    with user_faults():
        from turnpoint.cli.runs import open_run
        from turnpoint.pivots.recovery import paired_shares

        refuse_taken(out, "--out")
        base = _read_report(Path(against)) if against and Path(against).is_file() else None
        found, left_out = mistakes_of(mistakes, limit)
        settings = overrides or []
        if against and base is None:
            first = against == "initial"
            if first and initial:
                fail("--initial and --against initial play the same weights; leave one of them out")
            other = open_run(run_folder, settings, None if first else Path(against), initial=first)
            base = _replayed(other, found, replays, None)
        run = open_run(run_folder, settings, checkpoint, initial=initial)
        report = _replayed(run, found, replays, out) | {"left_out": left_out}
        if base is not None:
            shares = base["per_mistake"], report["per_mistake"]
            report = {**report, "against": base, "paired": paired_shares(*shares)}
    if as_json:
        print_json(report)
        return
    show_recovery(report)


def _read_report(path: Path) -> dict[str, Any]:
    """The JSON of an earlier call."""
    from turnpoint.config import ConfigError

    try:
        report = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{path} is not the JSON of turnpoint recover: {error}") from error
    if not isinstance(report, dict) or not isinstance(report.get("per_mistake"), dict):
        raise ConfigError(f"{path} is not the JSON of turnpoint recover: it has no 'per_mistake'")
    return report


def _replayed(run: Run, found: Sequence[Mistake], replays: int, out: Path | None) -> dict[str, Any]:
    """Replays with the present weights; equal random streams whichever these are, so that reports are paired."""
    from turnpoint.pivots.recovery import recovery_report, replay_mistakes
    from turnpoint.records import Episode, EpisodeWriter
    from turnpoint.training.evaluate import eval_rollouts

    rollouts = eval_rollouts(run, run.config.eval, prefix="recover")

    async def replay() -> list[list[Episode]]:
        try:
            return await replay_mistakes(rollouts, found, replays)
        finally:
            await rollouts.close()

    played = asyncio.run(replay())
    if out is not None:
        with EpisodeWriter(out) as writer:
            for episode in (one for several in played for one in several):
                writer.write(episode)
    return recovery_report(found, played).as_dict()


def show_recovery(report: dict[str, Any]) -> None:
    """The report in words."""
    from turnpoint.training.outcome import interval_text

    base = report.get("against")
    typer.echo(f"recovered {interval_text(report['rate'])} of {report['mistakes']} mistakes")
    if base:
        typer.echo(f"against   {interval_text(base['rate'])} of {base['mistakes']} mistakes")
        pairs = report["paired"]
        typer.echo(
            f"mistakes improved / worse / same: {pairs['improved']} / {pairs['worse']} / {pairs['same']}"
            + (f" ({pairs['unpaired']} that only one of them played)" if pairs["unpaired"] else "")
        )
    for n in range(5, len(report["within"]), 5):
        before = "" if not base else f" (against {100 * _within(base['within'], n):.1f}%)"
        typer.echo(f"  within {n} turns: {100 * report['within'][n]:.1f}%{before}")
    turns, optimal, efficiency = report["turns"], report["optimal"], report["efficiency"]
    if turns is not None:
        shortest = "" if optimal is None else f" (shortest possible {optimal:.1f})"
        typer.echo(
            f"turns of recovered continuations: {turns['mean']:.1f} [{turns['low']:.1f}, {turns['high']:.1f}]{shortest}"
        )
    if efficiency is not None:
        typer.echo(f"shortest over taken turns: {interval_text(efficiency)}")
    for reason, count in report["excluded"].items():
        typer.echo(f"replays without an outcome, {reason}: {count}")
    show_left_out(report["left_out"])


def _within(curve: list[float], n: int) -> float:
    return curve[min(n, len(curve) - 1)] if curve else 0.0
