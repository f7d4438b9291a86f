"""``turnpoint eval``: play held-out tasks with a recipe's model or a run's checkpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import config_path, console, fail, print_json, user_faults


def evaluate(
    target: Annotated[str, typer.Argument(help="A run folder (its newest checkpoint) or a recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of the run.")] = None,
    episodes: Annotated[Path | None, typer.Option(help="Write the episodes to this JSONL file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Success on held-out tasks with 95 % intervals, overall and by task type.

    Example: turnpoint eval runs/quickstart eval.tasks=200 --json
    """
    from turnpoint.training.settings import load_run_config

    with user_faults():
        folder = Path(target)
        is_run = (folder / "config.yaml").is_file()
        config = load_run_config(folder / "config.yaml" if is_run else config_path(target), overrides or [])
        from turnpoint.records import EpisodeWriter
        from turnpoint.training.evaluate import evaluate as play
        from turnpoint.training.loop import Trainer
        from turnpoint.training.run import build_run
        from turnpoint.training.view import View, success_text

        run = build_run(config, folder, training=False)
        if is_run or checkpoint is not None:
            step = Trainer(run, View()).resume(checkpoint)
            console().print(f"checkpoint of step {step}", markup=False)
        result = asyncio.run(play(run, config.eval))
        if episodes is not None:
            with EpisodeWriter(episodes) as writer:
                for episode in result.episodes:
                    writer.write(episode)
        if result.summary is None:
            fail(result.without_outcome())
    if as_json:
        print_json(result.summary.as_dict())
        return
    from turnpoint.training.outcome import summary_lines

    typer.echo(success_text(result.summary))
    for line in summary_lines(result.summary.as_dict()):
        typer.echo(line)
