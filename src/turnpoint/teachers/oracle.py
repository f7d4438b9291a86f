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
from turnpoint.teachers.noise import Noise, NoiseSettings
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
    error: NoiseSettings | None = None
    """Errors put into the answers, for studies of imperfect teachers; null = none."""

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
    label = "oracle"

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
        if settings.error is not None and not capabilities.admissible:
            raise ConfigError(
                f"teacher.error needs wrong actions to draw from, but environment '{suite.name}' lists no admissible "
                "ones; set teacher.error to null"
            )
        self.settings = settings
        self.counters = TeacherCounters()
        self._suite = suite
        self._env: Env | None = None
        self._memory = OracleMemory()

    @property
    def varies(self) -> bool:
        """Whether several answers to one question can differ: only by errors that are not repeated."""
        error = self.settings.error
        return error is not None and max(error.actions, error.turns) > 0 and error.repeated < 1

    def draw(self, number: int) -> OracleDraw:
        """The ``number``-th answer to every question, as its errors go."""
        return OracleDraw(self, number)

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        """Mistakes as candidates with the first best action as gold; None if there was no mistake.

        Reused turns count like the episode's own.
        """
        return self.report(episode, max_pivots)

    def report(self, episode: Episode, max_pivots: int, draw: int = 0) -> Report | None:
        """See ``analyse``; ``draw``: with the errors of which answer."""
        self.counters.reports += 1
        limit = max(0, min(max_pivots, self.settings.max_candidates or max_pivots))
        with self._copy(f"episode {episode.id}") as env:
            walk = Walk(Replay(env, episode), self._memory)
            mistakes = self._select(walk, max(limit, 1))
            if self.settings.error is not None:
                mistakes = self._distort(mistakes, walk, Noise(self.settings.error, draw))
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

    def _distort(self, mistakes: Sequence[Mistake], walk: Walk, noise: Noise) -> list[Mistake]:
        """Put errors into what is named; no turn is named twice."""
        turns, named, told = walk.episode.turns, {mistake.turn for mistake in mistakes}, list[Mistake]()
        for mistake in mistakes:
            place = f"{walk.episode.id}/{mistake.turn}"
            index, gold = mistake.turn, None
            if moved := noise.wrong_turn([t for t in range(len(turns)) if t not in named], place):
                best = walk.best_actions(moved[0], self.settings.knowledge)
                admissible = turns[moved[0]].observation.admissible or ()
                gold = noise.other_action(best, admissible, turns[moved[0]].executed, moved[1])
            if moved and gold is not None:
                index = moved[0]
                named.add(index)
            else:
                best = walk.best_actions(index, self.settings.knowledge)
                admissible = turns[index].observation.admissible or ()
                gold = noise.wrong_action(best, admissible, turns[index].executed, place)
            if gold is not None:
                self.counters.errors += 1
                turn = turns[index]
                mistake = Mistake(index, gold, turn.executed if turn.effective else None, mistake.cost)
            told.append(mistake)
        return told

    async def recover(self, situation: Situation) -> str | None:
        """The first best action; None where the task is done or cannot be completed any more."""
        return self.next_action(situation)

    def next_action(self, situation: Situation, draw: int = 0) -> str | None:
        """See ``recover``; ``draw``: with the errors of which answer."""
        self.counters.recoveries += 1
        with self._copy(f"task {situation.task.id}, turn {len(situation.turns)}") as env:
            Replay(env, situation.as_episode()).seek(len(situation.turns))
            best = env.best_actions(self.settings.knowledge)
        if not best or self.settings.error is None:
            return best[0] if best else None
        place = "/".join([situation.task.id, *(turn.executed for turn in situation.turns)])
        admissible = situation.observation.admissible or ()
        wrong = Noise(self.settings.error, draw).wrong_action(best, admissible, "", place)
        self.counters.errors += wrong is not None
        return best[0] if wrong is None else wrong

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
        errors = {} if self.settings.error is None else {"errors": float(self.counters.errors)}
        return self.counters.as_metrics(calls_a_model=False) | errors

    async def close(self) -> None:
        self._drop()


class OracleDraw:
    """One of several answers of an oracle that errs; everything else is the oracle's own."""

    remote = False

    def __init__(self, oracle: OracleTeacher, number: int) -> None:
        self._oracle = oracle
        self._number = number

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        """The report with this answer's errors."""
        return self._oracle.report(episode, max_pivots, self._number)

    async def recover(self, situation: Situation) -> str | None:
        """The next action with this answer's errors."""
        return self._oracle.next_action(situation, self._number)

    async def check(self) -> None:
        """Nothing to prove."""

    def metrics(self) -> dict[str, float]:
        """Those of the oracle."""
        return self._oracle.metrics()

    async def close(self) -> None:
        """The oracle is closed by who built it."""


def _among(turn: Turn, best: Sequence[str]) -> bool:
    """Whether the turn did one of the best actions; another spelling counts where the environment took it."""
    admissible = turn.observation.admissible
    return turn.executed in best or (
        turn.effective and any(same_action(turn.executed, action, admissible) for action in best)
    )
