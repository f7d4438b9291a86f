"""``turnpoint check``: look at model, template, teacher and environment before any training."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import NO, config_path, print_json, user_faults

if TYPE_CHECKING:
    from turnpoint.preflight import Finding, PreflightReport

_MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "skip": "skip"}


def check(
    recipe: Annotated[
        str, typer.Argument(help="A YAML file, or the name of a recipe that comes with turnpoint.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Training tasks of the tiny step.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Check a set-up before training: template, tokens, log-probs, teacher, signals, environment, memory, cost.

    One tiny step is run and nothing of it is kept. Exit code 1 if something must be mended first; each failure
    says what to change.

    Example: turnpoint check pivotopd_household policy.kind=local policy.model=models/Qwen3-4B
    """
    with user_faults():
        report = _check(config_path(recipe), overrides or [], tasks, None if as_json else show_finding)
    if as_json:
        print_json(report.to_dict())
    else:
        _summary(report)
    if not report.ok:
        raise typer.Exit(NO)


def _check(path: Path, overrides: list[str], tasks: int, progress: object) -> PreflightReport:
    from turnpoint.config import ConfigError
    from turnpoint.preflight import Finding, PreflightReport
    from turnpoint.preflight.check import check_config
    from turnpoint.training.settings import load_run_config

    show = progress if callable(progress) else None
    try:
        config = load_run_config(path, overrides)
    except ConfigError as error:
        finding = Finding("settings", "config", "fail", str(error))
        if show is not None:
            show(finding)
        return PreflightReport([finding])
    return asyncio.run(check_config(config, tasks=tasks, progress=show))


def show_finding(finding: Finding) -> None:
    """One line about a check."""
    typer.echo(f"{_MARKS[finding.verdict]} {finding.group}: {finding.name}: {finding.detail}")


def show_cost(report: PreflightReport) -> None:
    """The table of what a step and the run cost."""
    if report.cost:
        typer.echo("")
        typer.echo(f"{'':<32}{'tiny step':>14}{'a step':>16}{'the run':>20}")
        for name, value in report.cost.items():
            shown = (4, 4, 2) if name.endswith(" cost") else (1, 1, 0)
            tiny, step, run = (
                f"{value[k]:,.{n}f}" for k, n in zip(("tiny", "step", "run"), shown, strict=True)
            )
            typer.echo(f"{name:<32}{tiny:>14}{step:>16}{run:>20}")


def _summary(report: PreflightReport) -> None:
    show_cost(report)
    faults, doubts = len(report.failures), len(report.warnings)
    verdict = "nothing must be mended" if report.ok else f"{faults} to mend before training"
    typer.echo(f"{verdict}; {doubts} warning{'s' if doubts != 1 else ''}")
