"""Everything that ``turnpoint check`` looks at, in order, on a run that is built and never trained."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from turnpoint.config import ConfigError
from turnpoint.envs import EnvDataError
from turnpoint.preflight import (
    cost,
    environment,
    logprobs,
    memory,
    prompts,
    scoring,
    signals,
    tokens,
    update,
)
from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Doubt, Fault, Finding, NotApplicable, PreflightReport, Verdict
from turnpoint.teachers.protocol import TeacherError
from turnpoint.training.run import Run, build_run
from turnpoint.training.settings import RunConfig

Proof = Callable[[Bench], Awaitable[str]]
Progress = Callable[[Finding], None]

CHECKS: dict[tuple[str, str], Proof] = {
    ("environment", "contract"): environment.contract,
    ("prompts", "template"): prompts.template,
    ("prompts", "growing conversation"): prompts.growing,
    ("prompts", "reasoning and rows"): prompts.rows,
    ("prompts", "end of turn"): prompts.end_of_turn,
    ("teacher", "fits the student"): scoring.fit,
    ("teacher", "answers"): scoring.answers,
    ("tokens", "tiny step"): tokens.tiny_step,
    ("tokens", "conserved"): tokens.conserved,
    ("tokens", "only sampled ones"): tokens.only_sampled,
    ("tokens", "same history"): tokens.same_history,
    ("tokens", "ends are trained"): tokens.ends_trained,
    ("log-probs", "whole distribution"): logprobs.cutting,
    ("log-probs", "sampler and trainer"): logprobs.sampler,
    ("log-probs", "teacher = student"): logprobs.student_teacher,
    ("teacher", "positions"): scoring.positions,
    ("teacher", "repeatable"): scoring.repeatable,
    ("teacher", "fresh scorer"): scoring.fresh_scorer,
    ("teacher", "teacher = student"): scoring.zero,
    ("signals", "advantages"): signals.advantages,
    ("signals", "scoring teacher"): signals.scoring,
    ("signals", "naming teacher"): signals.naming,
    ("signals", "reward"): signals.reward,
    ("update", "end of turn"): update.end_learnt,
    ("update", "nothing else"): update.nothing_else,
    ("update", "dry run"): update.dry_run,
    ("cost", "memory"): memory.estimate,
    ("cost", "step"): cost.table,
}
"""Every check by group and name, in the order in which they run; the update comes last, as backends may keep it."""


async def check_config(
    config: RunConfig, *, tasks: int = 2, progress: Progress | None = None
) -> PreflightReport:
    """Build the run and check it; what cannot even be built is a finding too. Writes nothing but caches."""
    began = time.process_time()
    report = PreflightReport()
    try:
        run = build_run(config, Path(config.out) / config.name, training=False, learning=False)
    except (ConfigError, EnvDataError, OSError) as error:
        finding = Finding("settings", "build", "fail", str(error), _since(began))
        report.findings.append(finding)
        if progress is not None:
            progress(finding)
        return report
    return await check_run(run, tasks=tasks, progress=progress)


async def check_run(
    run: Run,
    *,
    tasks: int = 2,
    progress: Progress | None = None,
    only: Collection[tuple[str, str]] | None = None,
) -> PreflightReport:
    """Check a run that was built without scoring teachers (``build_run(..., training=False)``).

    ``tasks``: training tasks of the tiny step, at most ``train.tasks_per_step``; ``only``: keys of ``CHECKS`` to run
    instead of all.
    """
    listed = run.suite.tasks("train")
    count = max(1, min(tasks, run.config.train.tasks_per_step, len(listed)))
    bench = Bench(run, [listed[i * len(listed) // count] for i in range(count)] if len(listed) else [])
    report = PreflightReport()
    try:
        for (group, name), proof in CHECKS.items():
            if only is not None and (group, name) not in only:
                continue
            finding = await _try(group, name, proof, bench)
            report.findings.append(finding)
            if progress is not None:
                progress(finding)
    finally:
        for teacher in run.teachers.named().values():
            await teacher.close()
    report.memory, report.cost = bench.memory, bench.cost
    return report


async def _try(group: str, name: str, proof: Proof, bench: Bench) -> Finding:
    began = time.process_time()
    verdict: Verdict = "ok"
    try:
        detail = await proof(bench)
    except NotApplicable as reason:
        detail, verdict = str(reason), "skip"
    except Doubt as doubt:
        detail, verdict = str(doubt), "warn"
    except (Fault, ConfigError, EnvDataError, TeacherError) as fault:
        detail, verdict = str(fault), "fail"
    except Exception as error:
        detail = (
            f"{type(error).__name__}: {str(error)[:500]}; a part of the set-up raised this while it was tried"
        )
        verdict = "fail"
    return Finding(group, name, verdict, detail, _since(began))


def _since(began: float) -> float:
    return round(time.process_time() - began, 3)
