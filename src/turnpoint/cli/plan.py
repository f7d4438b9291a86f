"""``turnpoint plan``: what a step of a recipe costs on GPUs, and where it stops scaling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import config_path, print_json, user_faults

if TYPE_CHECKING:
    from turnpoint.planning.plan import Plan, Size


def plan(
    recipe: Annotated[
        str, typer.Argument(help="A YAML file, or the name of a recipe that comes with turnpoint.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that train and sample.")] = 8,
    gpu: Annotated[str, typer.Option(help="a100, h100, h200, or a measured profile, FILE.json.")] = "h100",
    model: Annotated[
        str | None, typer.Option(help="Shape of the student: Qwen3-1.7B, Qwen3-8B …, or a folder.")
    ] = None,
    teacher_model: Annotated[str | None, typer.Option(help="Shape of the scoring teacher.")] = None,
    run: Annotated[
        Path | None, typer.Option("--from", help="A run folder whose turns and lengths are taken.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="workload.turns=20, efficiency.train_mfu=0.4, cluster.… "),
    ] = None,
    residuals: Annotated[
        bool, typer.Option(help="Compare the model with published step times, under the same assumptions.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Time of a training step by part on --gpus, 8, 64 and 512 GPUs, what limits it there, and what would help.

    A cost model of tokens, bytes and operations, not a measurement: what it assumes is printed with --json and can be
    set; --residuals shows how far it is from published step times. docs/scale.md has the formulas.

    Example: turnpoint plan pivotopd_alfworld --gpus 8 --gpu h100 --model Qwen3-8B --set workload.turns=20
    """
    from turnpoint.planning import inputs
    from turnpoint.planning.plan import make_plan
    from turnpoint.planning.published import checks
    from turnpoint.training.settings import load_run_config

    with user_faults():
        config = load_run_config(config_path(recipe), overrides or [])
        given = inputs.read_settings(settings or [])
        student, found = inputs.student_shape(config, model)
        work = inputs.workload(config, run, given["workload"])
        machines = inputs.cluster(config, student, gpus, gpu, given)
        made = make_plan(work, student, machines, teacher=inputs.teacher_shape(config, teacher_model))
        compared = checks(machines.efficiency) if residuals else []
    if as_json:
        print_json(
            made.to_dict() | {"student_from": found, "residuals": [check.to_dict() for check in compared]}
        )
        return
    typer.echo(
        f"student {student.name} ({found}), GPU {machines.gpu.name}; every number is the model's, none is measured"
    )
    _workload(made)
    _table("the recipe's step", made.same_step)
    _table("steps that grow with the GPUs", made.grown_step)
    _advice(made, gpus)
    if compared:
        typer.echo("\npublished step times against the model:")
        for check in compared:
            typer.echo(
                f"  {check.what:<40} published {check.published:>7.2f} {check.unit}  model {check.predicted:>7.2f} "
                f"({check.ratio:.2f} x)"
            )


def _workload(made: Plan) -> None:
    work = made.same_step[0].work
    shown = "a growing conversation" if work.history is None else f"the last {work.history} turns"
    typer.echo(
        f"a step: {work.episodes:,.0f} episodes of {work.turns:g} turns, {work.response_tokens:g} tokens a response, "
        f"prompts of {shown}; {work.sampled_tokens:,.0f} tokens sampled, {work.trained_tokens:,.0f} through the update"
    )


def _table(title: str, sizes: list[Size]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from turnpoint.planning.step import PARTS

    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("seconds", no_wrap=True)
    for size in sizes:
        table.add_column(f"{size.cluster.gpus} GPUs", justify="right", no_wrap=True)
    for part in PARTS:
        if any(size.time.seconds[part] >= 0.05 for size in sizes):
            table.add_row(part, *(f"{size.time.seconds[part]:,.1f}" for size in sizes))
    table.add_row("a step", *(f"{size.time.total:,.1f}" for size in sizes), style="bold")
    table.add_row("episodes", *(f"{size.work.episodes:,.0f}" for size in sizes))
    table.add_row("episodes an hour", *(f"{size.episodes_per_hour:,.0f}" for size in sizes))
    table.add_row(
        "GPU-seconds an episode",
        *(f"{size.cluster.gpus * size.time.total / size.work.episodes:,.1f}" for size in sizes),
    )
    table.add_row("memory", *("fits" if size.memory.fits else "too little" for size in sizes))
    Console().print(table)


def _advice(made: Plan, gpus: int) -> None:
    for title, sizes in (("this step", made.same_step), ("grown steps", made.grown_step)):
        for size in sizes:
            if title == "grown steps" and size.cluster.gpus <= gpus:
                continue
            typer.echo(f"{size.cluster.gpus} GPUs, {title}:")
            for sentence in size.said:
                typer.echo(f"  {sentence}")
