"""``turnpoint swebench``: predictions for SWE-bench's harness, and the harness itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import NO, fail, print_json, user_faults
from turnpoint.cli.targets import EpisodeStream, opened, show_notes, sources_of

app = typer.Typer(help="SWE-bench: write predictions, run its harness.", no_args_is_help=True)


@app.callback()
def swebench() -> None:
    """SWE-bench: write predictions, run its harness."""


@contextmanager
def _sentences() -> Iterator[None]:
    from turnpoint.envs import EnvError

    try:
        yield
    except EnvError as error:
        fail(str(error))


@app.command("predict")
def predict(
    target: Annotated[Path, typer.Argument(help="A run folder, or a file of episodes.")],
    out: Annotated[Path, typer.Argument(help="File to write; must not exist yet.")],
    tasks: Annotated[Path, typer.Option(help="The file of tasks that was played.")],
    model: Annotated[str, typer.Option(help="Name of the model, for the predictions.")] = "turnpoint",
    part: Annotated[str, typer.Option(help="Which episodes: auto, eval, train, all.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write what episodes handed in, one line an instance (the first episode of each), as SWE-bench reads it.

    Example: turnpoint swebench predict runs/swe predictions.jsonl --tasks data/repo_repair/tasks.jsonl
    """
    import json

    from turnpoint.envs.repo_repair.shelf import Shelf, handed_in
    from turnpoint.envs.repo_repair.swebench import predictions
    from turnpoint.envs.repo_repair.tree import Tree

    left_out: Counter[str] = Counter()
    trees: dict[str, Tree] = {}
    with user_faults(), _sentences(), opened(target) as (path, _):
        if out.exists():
            fail(f"{out} exists already; name another file")
        shelf, stream = Shelf(tasks), EpisodeStream(sources_of(path, part))
        for episode in stream:
            name = episode.task.id
            if name not in shelf.records:
                left_out["of other tasks"] += 1
            elif name in trees:
                left_out["further episodes of an instance"] += 1
            else:
                trees[name] = handed_in(shelf.job(name), (turn.executed for turn in episode.turns))
        lines = list(predictions(trees.items(), model))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    empty = sum(not line["model_patch"] for line in lines)
    if as_json:
        print_json({"file": str(out), "predictions": len(lines), "empty": empty, "left_out": dict(left_out)})
        return
    show_notes([*(f"left out {count} {what}" for what, count in left_out.items()), *stream.problems[:5]])
    typer.echo(f"{len(lines)} predictions, {empty} of them empty: {out}")


@app.command("evaluate")
def evaluate(
    file: Annotated[Path, typer.Argument(help="Predictions.")],
    dataset: Annotated[str, typer.Option(help="Name or file of the instances.")],
    run_id: Annotated[str, typer.Option(help="Name of this evaluation.")] = "turnpoint",
    workers: Annotated[int, typer.Option(min=1, help="Containers at a time.")] = 1,
) -> None:
    """Run SWE-bench's own harness on predictions; needs Docker and pip install swebench. Exit code 1 if it fails.

    Example: turnpoint swebench evaluate predictions.jsonl --dataset SWE-bench/SWE-bench_Verified
    """
    from turnpoint.envs.repo_repair import swebench as adapter

    with user_faults():
        if not file.is_file():
            fail(f"there is no file {file}; make one with turnpoint swebench predict")
        status = adapter.evaluate(file, dataset, run_id, ["--max_workers", str(workers)])
    if status:
        raise typer.Exit(NO)
