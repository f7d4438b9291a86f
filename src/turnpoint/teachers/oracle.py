"""The environment's own oracle as the naming teacher: exact, free, and only as honest as its knowledge.

With ``knowledge: observed`` (the default) a turn is a mistake only if the agent could have known better from
what the episode had shown, and gold actions never use hidden state: distilling from a teacher that knows what
the student cannot know teaches it to guess. ``full`` is the paper's oracle pivot (PivotOPD: the distance
rises or the task becomes impossible) and serves analysis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pydantic import PositiveInt

from turnpoint.config import ConfigError
from turnpoint.envs.protocol import Env, EnvSuite, Knowledge
from turnpoint.envs.replay import Replay
from turnpoint.prompts.hints import correction_text
from turnpoint.prompts.report import Candidate, Report
from turnpoint.prompts.resolve import same_action
from turnpoint.records import Episode, Turn
from turnpoint.teachers.counters import TeacherCounters
from turnpoint.teachers.memory import OracleMemory, Walk
from turnpoint.teachers.protocol import Complete, Situation, TeacherFailure
from turnpoint.teachers.registry import TeacherSettings


class OracleTeacherSettings(TeacherSettings):
    """The environment's oracle names mistakes and best actions."""

    kind: Literal["oracle"] = "oracle"
    knowledge: Knowledge = "observed"
    """``observed``: only what the episode has shown; ``full``: hidden state too, for analysis."""
    order: Literal["earliest", "worst"] = "earliest"
    """Which mistakes come first: by turn, or by the distance they cost."""
    max_candidates: PositiveInt | None = None
    """Most turns named in an episode, whatever the method asks for; None = the method's own limit."""
    lesson: bool = True
    """Whether a report has a lesson: one factual sentence on the first mistake named."""

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> OracleTeacher:
        return OracleTeacher(suite, self)

    def vocabulary_texts(self) -> Iterable[str]:
        return (correction_text("", ""), correction_text("", None)) if self.lesson else ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """A turn whose executed action was not among the best."""

    turn: int
    gold: str
    executed: str | None
    """None if the environment did not accept the action."""
    cost: float
    """By how much the distance rose; infinite if the task became impossible, 0 where it was not measured."""


class OracleTeacher:
    """Walks recorded episodes in its own copy of the environment."""

    remote = False

    def __init__(self, suite: EnvSuite, settings: OracleTeacherSettings) -> None:
        capabilities = suite.capabilities
        if not capabilities.oracle:
            raise ConfigError(
                f"teacher.kind is oracle, but environment '{suite.name}' has no oracle to ask; "
                "set teacher.kind to http or self, or choose an environment with an oracle"
            )
        if not (capabilities.snapshots or capabilities.deterministic):
            raise ConfigError(
                f"teacher.kind is oracle, but environment '{suite.name}' has neither snapshots nor "
                "deterministic replay, so recorded states cannot be brought back; set teacher.kind to http or self"
            )
        self.settings = settings
        self.counters = TeacherCounters()
        self._suite = suite
        self._env: Env | None = None
        self._memory = OracleMemory()

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        """Mistakes as candidates with the first best action as gold; None if there was no mistake.

        Reused turns count like the episode's own.
        """
        self.counters.reports += 1
        limit = max(0, min(max_pivots, self.settings.max_candidates or max_pivots))
        with self._copy(f"episode {episode.id}") as env:
            walk = Walk(Replay(env, episode), self._memory)
            mistakes = self._select(walk, max(limit, 1))
        if not mistakes:
            return None
        first = min(mistakes, key=lambda mistake: mistake.turn)
        return Report(
            summary=f"The first mistake named is turn {first.turn} of {len(episode.turns)}.",
            lesson=correction_text(first.gold, first.executed) if self.settings.lesson else None,
            turn_lessons={m.turn: correction_text(m.gold, m.executed) for m in mistakes[:limit]},
            candidates=[Candidate(mistake.turn, mistake.gold) for mistake in mistakes[:limit]],
        )

    def _select(self, walk: Walk, limit: int) -> list[Mistake]:
        if self.settings.order == "earliest":
            return list(islice(self._mistakes(walk), limit))
        return sorted(self._mistakes(walk), key=lambda mistake: (-mistake.cost, mistake.turn))[:limit]

    def _mistakes(self, walk: Walk) -> Iterator[Mistake]:
        """Mistakes by turn, found lazily."""
        knowledge, measure = self.settings.knowledge, self.settings.order == "worst"
        for index, turn in enumerate(walk.episode.turns):
            if knowledge == "full":
                cost = walk.cost(index)
                if not cost > 0:
                    continue
            best = walk.best_actions(index, knowledge)
            if not best or _among(turn, best):
                continue
            if knowledge == "observed":
                cost = max(walk.cost(index), 0.0) if measure else 0.0
            yield Mistake(index, best[0], turn.executed if turn.effective else None, cost)

    async def recover(self, situation: Situation) -> str | None:
        """The first best action; None where the task is done or cannot be completed any more."""
        self.counters.recoveries += 1
        with self._copy(f"task {situation.task.id}, turn {len(situation.turns)}") as env:
            Replay(env, _as_episode(situation)).seek(len(situation.turns))
            best = env.best_actions(self.settings.knowledge)
        return best[0] if best else None

    @contextmanager
    def _copy(self, what: str) -> Iterator[Env]:
        """The teacher's copy of the environment; one that raised is given up."""
        if self._env is None:
            self._env = self._suite.make()
        try:
            yield self._env
        except Exception as error:
            self._drop()
            raise self.counters.fail(
                TeacherFailure.STATE, f"the oracle could not be asked about {what}: {error}"
            ) from error

    def _drop(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:
                return  # a broken copy is given up anyway; why it broke is already on record

    async def check(self) -> None:
        """Nothing to prove: what the environment lacks is refused when the teacher is built."""

    def metrics(self) -> dict[str, float]:
        return self.counters.as_metrics(calls_a_model=False)

    async def close(self) -> None:
        self._drop()


def _among(turn: Turn, best: Sequence[str]) -> bool:
    """Whether the turn did one of the best actions; another spelling counts where the environment took it."""
    admissible = turn.observation.admissible
    return turn.executed in best or (
        turn.effective and any(same_action(turn.executed, action, admissible) for action in best)
    )


def _as_episode(situation: Situation) -> Episode:
    """The situation as the end of an episode, so that restoring it is verified like any recorded state."""
    return Episode(
        id=f"{situation.task.id}/situation",
        task=situation.task,
        turns=list(situation.turns),
        final_observation=situation.observation,
        final_snapshot=situation.snapshot,
    )
