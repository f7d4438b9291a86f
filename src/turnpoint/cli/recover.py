"""``turnpoint recover``: replay a policy from recorded mistakes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import fail, print_json, user_faults


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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """How often a policy still solves the task after a recorded mistake.

    Example: turnpoint recover runs/quickstart runs/quickstart/eval/step_000000.jsonl --replays 8
    """
    from turnpoint.training.settings import load_run_config

    with user_faults():
        from turnpoint.pivots.recovery import first_mistakes, recovery_report, replay_mistakes
        from turnpoint.records import Episode, read_episodes
        from turnpoint.training.evaluate import eval_rollouts
        from turnpoint.training.loop import Trainer
        from turnpoint.training.run import build_run
        from turnpoint.training.view import View

        config = load_run_config(run_folder / "config.yaml", overrides or [])
        found = first_mistakes(read_episodes(mistakes))[:limit]
        if not found:
            fail(f"{mistakes} holds no failed episode with an oracle pivot; evaluate with eval.measure=true")
        run = build_run(config, run_folder, training=False)
        if not initial:
            Trainer(run, View()).resume(checkpoint)
        rollouts = eval_rollouts(run, config.eval, prefix="recover")

        async def replay() -> list[list[Episode]]:
            try:
                return await replay_mistakes(rollouts, found, replays)
            finally:
                await rollouts.close()

        replayed = asyncio.run(replay())
        report = recovery_report(found, replayed)
    if as_json:
        print_json(report.as_dict())
        return
    from turnpoint.training.outcome import interval_text

    typer.echo(
        f"recovered {interval_text(report.rate.as_dict())} over {report.rate.n} mistakes x {replays} replays"
    )
    for n in range(5, len(report.within), 5):
        typer.echo(f"  within {n} turns: {100 * report.within[n]:.1f}%")
    if report.turns is not None and report.optimal is not None:
        typer.echo(
            f"turns of recovered continuations: {report.turns.mean:.1f} (shortest possible {report.optimal:.1f})"
        )
    for reason, count in report.excluded.items():
        typer.echo(f"replays without an outcome, {reason}: {count}")
