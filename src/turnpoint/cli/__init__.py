"""The ``turnpoint`` command; one module per command, each thin."""

from __future__ import annotations

from typing import Annotated

import typer

from turnpoint.cli import (
    analyse,
    check,
    compare,
    diagnose,
    envs,
    evaluate,
    export,
    fork,
    gpu_smoke,
    inspect,
    methods,
    plan,
    predictions,
    recipes,
    recover,
    replay,
    resume,
    serve,
    serve_env,
    sft,
    train,
)


def show_version(wanted: bool) -> None:
    """Print the version of the package and end."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"turnpoint {version('turnpoint')}")
        raise typer.Exit


app = typer.Typer(
    name="turnpoint",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train multi-turn language-model agents from the turns where episodes go wrong."""


app.command("train")(train.train)
app.command("check")(check.check)
app.command("gpu-smoke")(gpu_smoke.gpu_smoke)
app.command("plan")(plan.plan)
app.command("resume")(resume.resume)
app.command("eval")(evaluate.evaluate)
app.command("diagnose")(diagnose.diagnose)
app.command("analyse")(analyse.analyse)
app.command("replay")(replay.replay)
app.command("recover")(recover.recover)
app.command("sft")(sft.sft)
app.command("fork")(fork.fork)
app.command("inspect")(inspect.inspect)
app.command("compare")(compare.compare)
app.command("export")(export.export)
envs.app.command("predictions")(predictions.predictions)
envs.app.command("judge")(predictions.judge)
app.add_typer(envs.app, name="envs")
serve.app.command("env")(serve_env.serve_env)
app.add_typer(serve.app, name="serve")
app.command("methods")(methods.methods)
app.command("recipes")(recipes.recipes)


def main() -> None:
    """Entry point of the console script."""
    app()
