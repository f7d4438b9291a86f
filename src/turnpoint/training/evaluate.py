"""Evaluation: held-out tasks, played with their own random streams so that runs are paired."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from turnpoint.methods import PlaysAttempts
from turnpoint.pivots import EpisodeSummary, summarise, summarise_chains
from turnpoint.records import Attempt, Episode, Task
from turnpoint.rollouts import Rollouts, RolloutSettings
from turnpoint.training.run import Run
from turnpoint.training.settings import EvalSettings


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Episodes of an evaluation and what they come to."""

    episodes: list[Episode]
    """All attempts, those of one chain in a row."""
    summary: EpisodeSummary | None
    """Of first attempts; with more of them, ``extra`` holds success within k attempts and what it cost. None if no
    first attempt has an outcome: time-outs and broken environments say nothing about the agent."""

    @property
    def stops(self) -> dict[str, int]:
        """First attempts by stop reason."""
        return dict(sorted(Counter(str(e.stop) for e in self.episodes if e.attempt.index == 0).items()))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; without a success rate where there is none."""
        return {"stops": self.stops} if self.summary is None else self.summary.as_dict()

    def without_outcome(self) -> str:
        """Why there is no summary."""
        return f"no episode has an outcome, so there is no success rate; stop reasons: {self.stops}"


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
        prefix=prefix, measure=settings.measure, workers=run.env_workers,
    )  # fmt: skip


async def evaluate(run: Run, settings: EvalSettings) -> Evaluation:
    """Play the evaluation tasks with the current weights. First attempts do not depend on ``settings.attempts``."""
    rollouts = eval_rollouts(run, settings)
    try:
        chains = await asyncio.gather(
            *(
                play_attempts(run, rollouts, task, i, settings.attempts)
                for task in eval_tasks(run, settings)
                for i in range(settings.samples)
            )
        )
    finally:
        await rollouts.close()
    first = [chain[0] for chain in chains]
    known = any(episode.stop is not None and episode.stop.has_outcome for episode in first)
    summary = summarise(first) if known else None
    if summary is not None and settings.attempts > 1:
        summary = replace(summary, extra=summarise_chains(chains, settings.attempts).as_dict())
    return Evaluation([episode for chain in chains for episode in chain], summary)


async def play_attempts(run: Run, rollouts: Rollouts, task: Task, index: int, count: int) -> list[Episode]:
    """``count`` attempts at a task: the method's own chain, or independent ones where it has none."""
    if count == 1:
        return [await rollouts.play(task, index)]
    if isinstance(run.method, PlaysAttempts):
        return await run.method.attempts(task, index, rollouts, count)
    chain = f"{rollouts.prefix}/{task.id}/{index}"
    return list(
        await asyncio.gather(
            *(
                rollouts.play(task, index, attempt=Attempt(n, (), chain), name=f"a{n}" if n else "")
                for n in range(count)
            )
        )
    )
