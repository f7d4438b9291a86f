"""What the checks work on: a run that was built but never trains, and one tiny step of its method."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnpoint.methods import Method, Teachers
from turnpoint.policy import ScoreRequest
from turnpoint.preflight.report import NotApplicable
from turnpoint.preflight.stand_ins import Remembering
from turnpoint.records import Episode, Group, Reflection, Row, Task, Turn
from turnpoint.training.loop import recompute_logprobs
from turnpoint.training.run import Run

LOGPROB_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.5}
"""Largest difference in nats that kernels of the same model may leave, by data type."""


@dataclass(slots=True)
class TinyStep:
    """A training step over few tasks, up to the update."""

    groups: list[Group]
    rows: list[Row]
    tally: dict[str, float]
    sampled_tokens: int
    teachers: dict[str, float]
    """What the teachers counted in it."""
    seconds_collect: float
    seconds_credit: float

    @property
    def episodes(self) -> list[Episode]:
        """Episodes and recovery branches."""
        return [e for group in self.groups for e in (*group.episodes, *group.branches)]

    @property
    def turns(self) -> list[tuple[Episode, Turn]]:
        """Turns that were sampled, with their episodes."""
        return [(e, turn) for e in self.episodes for turn in e.new_turns if turn.response_ids]

    @property
    def calls(self) -> list[Turn | Reflection]:
        """Every model call on record."""
        reflections = [e.reflection for e in self.episodes if e.reflection and e.reflection.response_ids]
        return [*(turn for _, turn in self.turns), *reflections]


@dataclass(slots=True)
class Bench:
    """A run to look at. Nothing of it is written anywhere."""

    run: Run
    tasks: Sequence[Task]
    """Tasks of the tiny step."""
    step: TinyStep | None = None
    sampler_gaps: list[float] = field(default_factory=list)
    """Difference between sampler and trainer for each token sampled in the tiny step."""
    seconds_update: float = 0.0
    update: Mapping[str, float] = field(default_factory=dict)
    """What the update of the tiny step's rows said."""
    memory: dict[str, float] = field(default_factory=dict)
    cost: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        """Difference of log-probs that is rounding."""
        kind = getattr(self.run.config.policy, "dtype", "float32")
        return LOGPROB_TOLERANCE.get(kind, LOGPROB_TOLERANCE["bfloat16"])

    def need_step(self) -> TinyStep:
        """The tiny step; raises ``NotApplicable`` where it could not be run."""
        if self.step is None:
            raise NotApplicable("the tiny step did not run")
        return self.step

    def need_turns(self) -> list[tuple[Episode, Turn]]:
        """Turns sampled in the tiny step, at least one."""
        turns = self.need_step().turns
        if not turns:
            raise NotApplicable("no turn was sampled in the tiny step")
        return turns

    def remember_scores(self) -> None:
        """Let scoring teachers answer the same question once only, however often the tiny step is played."""
        teachers = self.run.teachers
        teachers.scoring = {domain: Remembering(teacher) for domain, teacher in teachers.scoring.items()}

    async def first_step(self) -> TinyStep:
        """Run the tiny step with the run's own method and teachers, and compare sampler and trainer on it."""
        run = self.run
        self.step = await self.play(run.method, run.teachers)
        return self.step

    async def play(self, method: Method, teachers: Teachers) -> TinyStep:
        """Collect and credit over the tasks; equal methods and teachers give equal steps."""
        run, before, began = self.run, _counts(teachers), time.perf_counter()
        rollouts = run.open_rollouts(0)
        try:
            groups = await method.collect(self.tasks, rollouts, teachers)
            collected = time.perf_counter()
            if run.method is method:
                await self._compare(groups)
            if run.config.train.recompute_old_logprobs:
                await recompute_logprobs(run.scorer, groups)
            rows = await method.credit(groups, run.scorer, teachers)
        finally:
            await rollouts.close()
        counted = {name: value - before.get(name, 0.0) for name, value in _counts(teachers).items()}
        return TinyStep(
            groups, rows, method.tally.take(), rollouts.sampled_tokens, counted,
            collected - began, time.perf_counter() - collected,
        )  # fmt: skip

    async def _compare(self, groups: Sequence[Group]) -> None:
        """Score what was sampled, before log-probs are put in place of the sampler's."""
        calls = TinyStep(list(groups), [], {}, 0, {}, 0.0, 0.0).calls
        scored = await self.run.scorer.logprobs([ScoreRequest(c.prompt_ids, c.response_ids) for c in calls])
        for call, values in zip(calls, scored, strict=True):
            self.sampler_gaps += [abs(a - b) for a, b in zip(values.tolist(), call.logprobs, strict=True)]


def _counts(teachers: Teachers) -> dict[str, float]:
    return {
        f"{section}/{name}": value
        for section, teacher in teachers.named().items()
        for name, value in teacher.metrics().items()
    }


def alone(episode: Episode, turns: Sequence[Turn], name: str, *, open_: bool = False) -> Episode:
    """A copy of ``episode`` with these turns and an id of its own, for a teacher to score; ``open_``: in play."""
    stop = None if open_ else episode.stop
    return replace(episode, id=f"{episode.id}/{name}", turns=list(turns), stop=stop)
