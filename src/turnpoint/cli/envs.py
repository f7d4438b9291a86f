"""``turnpoint envs``: list environments, prepare their data, and prove that one keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnpoint.cli.common import NO, fail, print_json, user_faults

if TYPE_CHECKING:
    from turnpoint.envs import EnvSettings
    from turnpoint.envs.check import Check

INCOMPLETE = 3
"""Exit code: nothing that was checked failed, but not everything could be checked."""

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
        where = env_registry.get(env["name"]).prepared
        state = {True: f" (prepared: {where})", False: f" (not prepared in {where})", None: ""}[
            env["prepared"]
        ]
        typer.echo(f"{env['name']}: {', '.join(abilities)}; extra: {extra}; data: {env['data']}{state}")


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
    name: Annotated[str, typer.Argument(help="Kind of the environment, or 'all'.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, as setting=value; with 'all' as KIND.setting=value.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks to prove it on.")] = 5,
    quick: Annotated[bool, typer.Option(help="Shorter walks and a fifth of the resets.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this proof; may be given again.")] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="With 'all': leave this kind out; may be given again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Prove that an environment keeps the contract; exit code 1 if it does not.

    With 'all', environments whose extra or data is missing are named and not checked; exit code 3 says that nothing
    failed, but not everything was checked.

    Example: turnpoint envs check household games=data/alfworld
    Example: turnpoint envs check all --without tau2 alfworld.games=data/alfworld
    """
    from turnpoint.envs import EnvDataError, env_registry
    from turnpoint.envs.check import CHECKS, check_env

    if unknown := [proof for proof in only or () if proof not in CHECKS]:
        fail(f"there is no proof '{unknown[0]}'; proofs: {', '.join(CHECKS)}")
    kinds = env_registry.names() if name == "all" else [name]
    if strange := [kind for kind in without or () if name != "all" or kind not in kinds]:
        fail(
            f"--without {strange[0]} leaves nothing out; it goes with 'all' and takes one of {', '.join(kinds)}"
        )
    kinds = [kind for kind in kinds if kind not in (without or ())]
    with user_faults():
        sections = _sections(kinds, overrides or [], many=name == "all")
    reports: list[dict[str, Any]] = []
    for kind in kinds:
        try:
            suite = _parsed(sections[kind]).build()
        except EnvDataError as reason:
            if name != "all":
                fail(str(reason))
            reports.append({"env": kind, "ok": None, "not_checked": str(reason)})
        else:
            if name == "all" and not as_json:
                typer.echo(f"{kind}:")
            report = check_env(
                suite, tasks=tasks, quick=quick, only=only or (), progress=None if as_json else _show
            )
            reports.append(report.to_dict() | {"env": kind})
    if as_json:
        print_json(reports if name == "all" else reports[0])
    elif name == "all":
        _conclude(reports)
    if any(report["ok"] is False for report in reports):
        raise typer.Exit(NO)
    if any(report["ok"] is None for report in reports):
        raise typer.Exit(INCOMPLETE)


def _sections(kinds: list[str], overrides: list[str], *, many: bool) -> dict[str, dict[str, Any]]:
    """The ``env`` section of each kind; with ``many`` an override begins with the kind that it is for."""
    from turnpoint.config import ConfigError, apply_overrides

    if not many:
        return {kind: apply_overrides({"kind": kind}, overrides) for kind in kinds}
    for override in overrides:
        if override.split(".")[0] not in kinds:
            raise ConfigError(
                f"with 'all', settings name their environment, as household.games=FOLDER; '{override}' names none of "
                f"{', '.join(kinds)}"
            )
    return apply_overrides({kind: {"kind": kind} for kind in kinds}, overrides)


def _parsed(section: dict[str, Any]) -> EnvSettings:
    from pydantic import ValidationError

    from turnpoint.config import explain
    from turnpoint.envs import env_registry

    with user_faults():
        try:
            return env_registry.parse(section)
        except ValidationError as error:
            fail(explain(error))


def _show(item: Check) -> None:
    verdict = "skip" if item.skipped else "ok  " if item.ok else "FAIL"
    typer.echo(f"{verdict} {item.name}: {item.detail}")


def _conclude(reports: list[dict[str, Any]]) -> None:
    """The verdicts at the end of a long list, each failure with its detail."""
    if names := [report["env"] for report in reports if report["ok"]]:
        typer.echo(f"passed: {', '.join(names)}")
    for report in reports:
        if report["ok"] is None:
            typer.echo(f"not checked: {report['env']}: {report['not_checked']}")
        for proof in report.get("checks", ()):
            if not proof["ok"]:
                typer.echo(f"FAILED: {report['env']}: {proof['name']}: {proof['detail']}")
