"""Evaluation: held-out tasks, played with their own random streams so that runs are paired."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from turnpoint.pivots import EpisodeSummary, summarise
from turnpoint.records import Episode, Task
from turnpoint.rollouts import Rollouts, RolloutSettings
from turnpoint.training.run import Run
from turnpoint.training.settings import EvalSettings


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Episodes of an evaluation and what they come to."""

    episodes: list[Episode]
    summary: EpisodeSummary


def eval_tasks(run: Run, settings: EvalSettings) -> list[Task]:
    """The first ``settings.tasks`` tasks of the split, or all if there are fewer."""
    tasks = run.suite.tasks(settings.split)
    return [tasks[i] for i in range(min(settings.tasks, len(tasks)))]


def eval_rollouts(run: Run, settings: EvalSettings, *, prefix: str = "eval") -> Rollouts:
    """Rollouts with the evaluation's sampling; equal prefixes give paired random streams."""
    rollout = RolloutSettings.model_validate(
        run.config.rollout.model_dump()
        | {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k}
    )
    return Rollouts(
        run.suite, run.policy, run.prompter, run.renderer, rollout, run.streams,
        prefix=prefix, measure=settings.measure,
    )  # fmt: skip


async def evaluate(run: Run, settings: EvalSettings) -> Evaluation:
    """Play the evaluation tasks with the current weights."""
    rollouts = eval_rollouts(run, settings)
    try:
        episodes = await asyncio.gather(
            *(rollouts.play(task, i) for task in eval_tasks(run, settings) for i in range(settings.samples))
        )
    finally:
        rollouts.close()
    return Evaluation(list(episodes), summarise(episodes))
