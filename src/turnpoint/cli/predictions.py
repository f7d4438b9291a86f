"""``turnpoint envs predictions`` and ``judge``: what episodes handed in, for the judge that a benchmark brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import NO, fail, print_json, user_faults
from turnpoint.cli.targets import EpisodeStream, opened, refuse_taken, show_notes, sources_of


def predictions(
    name: Annotated[str, typer.Argument(help="Kind of the environment.")],
    target: Annotated[Path, typer.Argument(help="A run folder, or a file of episodes.")],
    out: Annotated[Path, typer.Argument(help="File to write; must not exist yet.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as setting=value.")] = None,
    model: Annotated[str, typer.Option(help="Name of the model, for the predictions.")] = "turnpoint",
    part: Annotated[str, typer.Option(help="Which episodes: auto, eval, train, all.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write what episodes handed in, as the benchmark's own judge reads it.

    Example: turnpoint envs predictions repo_repair runs/swe predictions.jsonl tasks=data/repo_repair/tasks.jsonl
    """
    from turnpoint.config import apply_overrides
    from turnpoint.envs import EnvDataError, EnvError, env_registry

    with user_faults(), opened(target) as (path, _):
        refuse_taken(out, "OUT")
        settings = env_registry.parse(apply_overrides({"kind": name}, overrides or []))
        stream = EpisodeStream(sources_of(path, part))
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            facts = settings.predictions(stream, out, model)
        except EnvError as error:
            raise EnvDataError(str(error)) from error
    if as_json:
        print_json(facts)
        return
    show_notes(stream.problems[:5])
    for key, value in facts.items():
        typer.echo(f"{key}: {value}")


def judge(
    name: Annotated[str, typer.Argument(help="Kind of the environment.")],
    file: Annotated[Path, typer.Argument(help="Predictions.")],
    dataset: Annotated[str, typer.Option(help="Name or file of the benchmark's data.")],
    run_id: Annotated[str, typer.Option(help="Name of this evaluation.")] = "turnpoint",
    workers: Annotated[int, typer.Option(min=1, help="Evaluations at a time.")] = 1,
) -> None:
    """Run a benchmark's own judge on predictions; exit code 1 if it fails. SWE-bench's needs Docker and its package.

    Example: turnpoint envs judge repo_repair predictions.jsonl --dataset SWE-bench/SWE-bench_Verified
    """
    from turnpoint.envs import env_registry

    with user_faults():
        if not file.is_file():
            fail(f"there is no file {file}; make one with turnpoint envs predictions")
        status = env_registry.get(name).judge(file, dataset, run_id, workers)
    if status:
        raise typer.Exit(NO)
