"""``turnpoint train --dry-run``: what a run will need and cost, before anything of it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.envs import EnvDataError
from turnpoint.preflight import memory
from turnpoint.preflight.check import Progress, check_run
from turnpoint.preflight.report import Doubt, Fault, Finding, NotApplicable, PreflightReport
from turnpoint.prompts import Prompter
from turnpoint.training.run import build_run
from turnpoint.training.settings import RunConfig

STEPS = {
    ("teacher", "fits the student"),
    ("tokens", "tiny step"),
    ("update", "dry run"),
    ("cost", "memory"),
    ("cost", "step"),
}
"""The checks of ``turnpoint check`` that a dry run takes."""


async def dry_run(config: RunConfig, *, tasks: int = 2, progress: Progress | None = None) -> PreflightReport:
    """Estimate memory from the model's files; if it can fit, build the run, play one tiny step and scale it up.

    A warm start that the cache does not have is left out, for it may take longer than the run itself. No weight
    changes and nothing is written but caches.
    """
    config, left_out = without_warm_start(config)
    first = _before(config)
    told = [first, left_out] if left_out is not None else [first]
    for finding in told:
        if progress is not None:
            progress(finding)
    report = PreflightReport()
    if first.verdict != "fail":
        try:
            run = build_run(config, Path(config.out) / config.name, training=False, learning=False)
        except (ConfigError, EnvDataError, OSError) as error:
            told.append(Finding("settings", "build", "fail", str(error)))
            if progress is not None:
                progress(told[-1])
        else:
            report = await check_run(run, tasks=tasks, progress=progress, only=STEPS)
    report.findings = [*told, *report.findings]
    return report


def without_warm_start(config: RunConfig) -> tuple[RunConfig, Finding | None]:
    """The config with a policy that is not trained on demonstrations first, and a finding that says so."""
    policy: Any = config.policy
    made_first: Any = getattr(
        policy, "start", None
    )  # a policy elsewhere may train a model that another one makes
    maker = policy if made_first is None else made_first
    warm = getattr(maker, "warm_start", None)
    if warm is None or not warm.demonstrations:
        return config, None
    suite = config.env.build()
    prompter = Prompter(config.prompt, suite.instructions)
    if maker.made(suite, prompter, cache=config.cache, seed=config.seed):
        return config, None
    skipped = maker.model_copy(update={"warm_start": warm.model_copy(update={"demonstrations": 0})})
    if made_first is not None:
        skipped = policy.model_copy(update={"start": skipped})
    detail = (
        f"{warm.demonstrations} demonstrations, not trained on yet and left out here: what follows is of the model "
        "before, whose replies may be longer"
    )
    return config.model_copy(update={"policy": skipped}), Finding("policy", "warm start", "skip", detail)


def _before(config: RunConfig) -> Finding:
    try:
        _, detail = memory.before_building(config)
    except NotApplicable as reason:
        return Finding("memory", "from the model's files", "skip", str(reason))
    except Doubt as doubt:
        return Finding("memory", "from the model's files", "warn", str(doubt))
    except (Fault, ConfigError) as fault:
        return Finding("memory", "from the model's files", "fail", str(fault))
    return Finding("memory", "from the model's files", "ok", detail)
