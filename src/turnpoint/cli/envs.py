"""``turnpoint envs``: list environments, and prove that one keeps the contract."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from turnpoint.cli.common import NO, fail, print_json, user_faults

app = typer.Typer(
    help="Environments: list them, or check one.", no_args_is_help=False, invoke_without_command=True
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
    with user_faults():
        found = describe_envs()
    if as_json:
        print_json(found)
        return
    for env in found:
        abilities = [key for key in ("snapshots", "replay", "oracle", "admissible") if env[key]]
        typer.echo(
            f"{env['name']}: {', '.join(abilities)}; extra: {env['extra'] or 'none'}; data: {env['data']}"
        )


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
