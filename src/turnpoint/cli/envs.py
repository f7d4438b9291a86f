"""``turnpoint envs``: list environments, prepare their data, and prove that one keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from turnpoint.cli.common import NO, fail, print_json, user_faults

app = typer.Typer(
    help="Environments: list them, prepare data, or check one.",
    no_args_is_help=False,
    invoke_without_command=True,
)


def describe_envs() -> list[dict[str, Any]]:
    """Capabilities, extra and data of every registered environment."""
    from turnpoint.envs import env_registry

    return [{"name": name, **env_registry.get(name).describe()} for name in env_registry.names()]


@app.callback()
def envs(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """List environments with what they can do.

    Example: turnpoint envs --json
    """
    if context.invoked_subcommand is not None:
        return
    from turnpoint.envs import env_registry

    with user_faults():
        found = describe_envs()
    if as_json:
        print_json(found)
        return
    for env in found:
        abilities = [key for key in ("snapshots", "replay", "oracle", "admissible") if env[key]]
        install = env_registry.get(env["name"]).missing()
        extra = f"{env['extra'] or 'none'}{f' (not installed: {install})' if install else ''}"
        typer.echo(f"{env['name']}: {', '.join(abilities)}; extra: {extra}; data: {env['data']}")


@app.command("prepare")
def prepare(
    name: Annotated[str, typer.Argument(help="Kind of the environment.")],
    source: Annotated[Path, typer.Argument(help="Released data: a file or a folder.")],
    out: Annotated[Path, typer.Option(help="Where the prepared data goes.")] = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Bring released data into the form an environment reads, in OUT/NAME, and print its hashes.

    Example: turnpoint envs prepare alfworld json_2.1.1_tw-pddl.zip
    """
    from turnpoint.envs import env_registry

    with user_faults():
        facts = env_registry.get(name).prepare(source, out / name)
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        typer.echo(f"{key}: {value}")


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="Kind of the environment.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as setting=value.")] = None,
    tasks: Annotated[int, typer.Option(help="Tasks to prove it on.")] = 5,
    quick: Annotated[bool, typer.Option(help="Leave out the long memory check.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Prove that an environment keeps the contract; exit code 1 if it does not.

    Example: turnpoint envs check household games=data/alfworld
    """
    from pydantic import ValidationError

    from turnpoint.config import apply_overrides, explain
    from turnpoint.envs import env_registry
    from turnpoint.envs.check import check_env

    with user_faults():
        try:
            suite = env_registry.parse(apply_overrides({"kind": name}, overrides or [])).build()
        except ValidationError as error:
            fail(explain(error))
        report = check_env(suite, tasks=tasks, quick=quick)
    if as_json:
        print_json(report.to_dict())
    else:
        for item in report.checks:
            verdict = "skip" if item.skipped else "ok  " if item.ok else "FAIL"
            typer.echo(f"{verdict} {item.name}: {item.detail}")
    if not report.ok:
        raise typer.Exit(NO)
