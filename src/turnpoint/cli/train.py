"""``turnpoint train``: run a recipe from its first step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import NO, config_path, console, user_faults

if TYPE_CHECKING:
    from turnpoint.training.settings import RunConfig


def train(
    recipe: Annotated[
        str, typer.Argument(help="A YAML file, or the name of a recipe that comes with turnpoint.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    dry: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what memory and a step will take, and stop before anything starts."
        ),
    ] = False,
) -> None:
    """Train an agent; the last line on stdout is the run folder.

    Exit code 1 if a teacher's budget ended the run early; resume it with a larger one.

    Example: turnpoint train quickstart train.steps=20 method.recovery_turns=1
    """
    from turnpoint.training.settings import load_run_config

    with user_faults():
        config = load_run_config(config_path(recipe), overrides or [])
        if dry:
            _estimate(config)
            return
        from turnpoint.training.run import build_run, new_run_folder

        run = build_run(config, new_run_folder(config))
        start(run)


def _estimate(config: RunConfig) -> None:
    """What the run needs and costs; exit code 1 if it cannot run."""
    from turnpoint.cli.check import show_cost, show_finding
    from turnpoint.preflight.dry_run import dry_run

    report = asyncio.run(dry_run(config, progress=show_finding))
    show_cost(report)
    if not report.ok:
        raise typer.Exit(NO)


def start(run: object, *, resume: bool = False, checkpoint: Path | None = None, force: bool = False) -> None:
    """Run the loop with a view on stderr, then print the outcome and the run folder."""
    from turnpoint.inspector import write_run_report
    from turnpoint.training.loop import Trainer
    from turnpoint.training.outcome import outcome_lines
    from turnpoint.training.run import Run
    from turnpoint.training.view import ConsoleView

    assert isinstance(run, Run)
    with ConsoleView(console(), run.config.train.steps) as view:
        trainer = Trainer(run, view, force=force)
        if resume:
            view.note(f"resumed after step {trainer.resume(checkpoint)}")
        asyncio.run(trainer.train())
    report = write_run_report(run.folder)
    for line in outcome_lines(run.folder):
        typer.echo(line)
    typer.echo(f"report: {report}")
    if trainer.stopped is not None:
        typer.echo(
            f"stopped after step {trainer.step} of {run.config.train.steps}: {trainer.stopped}", err=True
        )
    typer.echo(str(run.folder))
    if trainer.stopped is not None:
        raise typer.Exit(NO)
