"""What a training step will cost, extrapolated from the tiny one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from turnpoint.preflight.bench import Bench, TinyStep
from turnpoint.preflight.report import Doubt, NotApplicable
from turnpoint.preflight.tokens import trained
from turnpoint.training.settings import DEFAULT_DOMAIN

_TEACHER = (
    "requests", "reports", "recoveries", "scored_tokens", "read_tokens", "prompt_tokens", "completion_tokens", "cost",
)  # fmt: skip
"""What teachers count that grows with the work."""


async def table(bench: Bench) -> str:
    """Tokens by kind, teacher calls and seconds of a step and of the run."""
    step, config = bench.need_step(), bench.run.config
    if not bench.tasks:
        raise NotApplicable("there is no training task")
    scale = config.train.tasks_per_step / len(bench.tasks)
    bench.cost = {
        name: {"tiny": value, "step": value * scale, "run": value * scale * config.train.steps}
        for name, value in figures(bench, step).items()
    }
    seconds = bench.cost["seconds"]
    short = short_budgets(bench, step, scale)
    if short:
        raise Doubt(
            f"{'; '.join(short)} (scaled from {len(bench.tasks)} tasks); the run will end early or go on without the "
            "teacher: raise the budget, or lower train.steps"
        )
    hits = any(value for name, value in step.teachers.items() if name.endswith("/cache_hits"))
    cached = (
        "; answers of teachers that the cache had are counted as bought, but took no time" if hits else ""
    )
    return (
        f"a step of {config.train.tasks_per_step} tasks: about {bench.cost['sampled tokens']['step']:,.0f} sampled and "
        f"{bench.cost['trained tokens']['step']:,.0f} trained tokens, {seconds['step']:,.1f} s; {config.train.steps} "
        f"steps {seconds['run'] / 3600:,.2f} h (scaled from {len(bench.tasks)} tasks; larger batches are faster)"
        f"{cached}"
    )


def short_budgets(bench: Bench, step: TinyStep, scale: float) -> list[str]:
    """Budgets of teachers that will not last for the run, each with the steps it lasts."""
    config, counted, found = bench.run.config, uncached(step.teachers), []
    alone = list(config.scoring) == [DEFAULT_DOMAIN]
    sections: list[tuple[str, str, Any]] = [("teacher", "teacher", config.teacher)]
    for domain, scoring in config.scoring.items():
        path = "scoring" if domain == DEFAULT_DOMAIN else f"scoring/{domain}"
        sections.append(("scoring" if alone else f"scoring.{domain}", path, scoring))
    for section, path, settings in sections:
        for name, limit in getattr(getattr(settings, "budget", None), "limits", {}).items():
            parts = ("prompt_tokens", "completion_tokens") if name == "tokens" else (name,)
            a_step = scale * sum(counted.get(f"{path}/{part}", 0.0) for part in parts)
            if a_step and limit / a_step < config.train.steps:
                found.append(
                    f"{section}.budget.{name} lasts about {limit / a_step:,.0f} of {config.train.steps} steps"
                )
    return found


def uncached(counted: Mapping[str, float]) -> dict[str, float]:
    """What teachers would count if their caches were empty, as they are for most of a run.

    A check that is made again, or after a run of the same tasks, finds its answers in the cache and buys nothing.
    """
    return {name: value + counted.get(_cached(name), 0.0) for name, value in counted.items()}


def _cached(name: str) -> str:
    """Where a teacher says what of a count its cache saved."""
    section, _, count = name.rpartition("/")
    return f"{section}/cached_{count}"


def figures(bench: Bench, step: TinyStep) -> dict[str, float]:
    """Numbers of the tiny step."""
    turns = [turn for _, turn in step.turns]
    teachers = {
        name.replace("/", " "): value
        for name, value in uncached(step.teachers).items()
        if name.rsplit("/", 1)[-1] in _TEACHER and value
    }
    return {
        "episodes": float(len(step.episodes)),
        "turns": float(len(turns)),
        "prompt tokens": float(sum(len(call.prompt_ids) for call in step.calls)),
        "prompt tokens read anew": float(fresh_tokens(step)),
        "sampled tokens": float(step.sampled_tokens),
        "dropped tokens": sum(n for name, n in step.tally.items() if name.startswith("dropped_tokens/")),
        "rows": float(len(step.rows)),
        "trained tokens": float(sum(row.trained_tokens for row in step.rows)),
        "tokens with an advantage": float(sum(int((trained(row) != 0).sum()) for row in step.rows)),
        "tokens through the update": float(bench.update.get("tokens_processed", 0.0)),
        **teachers,
        "seconds collecting": step.seconds_collect,
        "seconds crediting": step.seconds_credit,
        "seconds updating": bench.seconds_update,
        "seconds": step.seconds_collect + step.seconds_credit + bench.seconds_update,
    }


def fresh_tokens(step: TinyStep) -> int:
    """Prompt tokens that no earlier turn of the same episode holds, which a key-value cache leaves to read."""
    total = 0
    for episode in step.episodes:
        turns = [turn for turn in episode.new_turns if turn.response_ids]
        total += len(turns[0].prompt_ids) if turns else 0
        for before, turn in pairwise(turns):
            held = (*before.prompt_ids, *before.response_ids)
            extends = turn.prompt_ids[: len(held)] == held
            total += len(turn.prompt_ids) - (len(held) if extends else 0)
    return total
