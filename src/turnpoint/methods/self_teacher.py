"""The student as its own token-level teacher: the same weights, reading what the student could not know.

The privileged text is the plan of a sibling episode that solved the task, the naming teacher's lesson or gold
action, or what the environment answered. It stands in the prompt that the teacher scores under, never in one that
is trained. A turn without such text has no teacher and keeps its plain advantage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turnpoint.config import ConfigError
from turnpoint.envs import Capabilities
from turnpoint.methods import privileged
from turnpoint.methods.naming import name_pivots
from turnpoint.methods.outcome import OutcomeSettings
from turnpoint.methods.parts import Stateless, play_groups
from turnpoint.methods.privileged import Insertion
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, score_missing
from turnpoint.methods.tally import Tally
from turnpoint.policy import ScoreRequest
from turnpoint.policy.protocol import Floats
from turnpoint.prompts import Prompter, assert_unhinted
from turnpoint.records import Episode, Group, Row, Task, Turn
from turnpoint.rollouts import Rollouts, Scorer

Source = Literal["sibling", "lesson", "gold", "feedback", "scoring"]
PairedRows = list[tuple[Turn, Row]]
SHIFT = "self_teacher"
"""Key of ``Turn.scores``: what the teacher changed in the advantage of each token."""


class SelfTaughtSettings(OutcomeSettings):
    """What methods have that weigh or shift the outcome by a token-level teacher."""

    privileged: Source = "sibling"
    """What the teacher reads: the actions of a ``sibling`` that solved the task, the naming teacher's ``lesson`` or
    ``gold`` action, the environment's ``feedback`` to the turn; or ``scoring``: the teacher of that section."""
    max_pivots: int = Field(default=5, ge=1)
    """Most turns of an episode that the naming teacher may give a gold action for."""

    @property
    def distils(self) -> bool:
        """Whether the teacher has any influence; without it this is GRPO and no teacher is asked."""
        return True

    @property
    def asks_scoring(self) -> bool:
        return self.distils and self.privileged == "scoring"

    @property
    def asks_naming(self) -> bool:
        return self.distils and self.privileged in ("lesson", "gold")

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        if not self.distils:
            return
        if self.asks_naming:
            teachers.require_naming(self.kind)
        if self.privileged == "scoring":
            teachers.require_scoring(self.kind)
        if self.privileged == "sibling" and self.group < 2:
            raise ConfigError(
                f"method.privileged is sibling, but method.group is {self.group}: an episode has no sibling to learn "
                "from; set method.group to 2 or more, or method.privileged to lesson, gold or feedback"
            )


class SelfTaught(Stateless):
    """Collects groups for a method with a self teacher and asks it; subclasses say what the answer does to rows."""

    def __init__(self, settings: SelfTaughtSettings) -> None:
        self._taught = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` episodes of every task; then whoever knows something is asked."""
        s = self._taught
        groups = await play_groups(tasks, rollouts, s.group)
        if s.asks_naming:
            naming = teachers.require_naming(s.kind)
            await name_pivots(groups, naming, s.max_pivots, self.tally, rollouts)
        if s.asks_scoring:
            episodes = [episode for group in groups for episode in group.episodes]
            await score_missing(episodes, teachers, self.tally)
        return groups

    async def teacher_logprobs(
        self, pairs: PairedRows, groups: Sequence[Group], scorer: Scorer
    ) -> list[Floats | None]:
        """Teacher log-probs [len(response_ids)] of every row, None where there is no teacher."""
        if self._taught.privileged != "scoring":
            inserted = self.insertions(pairs, groups, scorer.prompter)
            return await score_insertions("teacher", pairs, inserted, scorer, self.tally)
        found = [turn.scores.get(TEACHER) for turn, _ in pairs]
        result: list[Floats | None] = [None if f is None else np.asarray(f) for f in found]
        note_scores("teacher", pairs, result, self.tally)
        return result

    def insertions(
        self, pairs: PairedRows, groups: Sequence[Group], prompter: Prompter
    ) -> list[Insertion | None]:
        """The privileged prompt of every row, None where there is none."""
        of = {episode.id: (episode, group) for group in groups for episode in group.episodes}
        return [self._insertion(turn, *of[row.episode], prompter) for turn, row in pairs]

    def _insertion(self, turn: Turn, episode: Episode, group: Group, prompter: Prompter) -> Insertion | None:
        source = self._taught.privileged
        if source == "sibling":
            return privileged.sibling_plan(turn, episode, group, prompter)
        if source == "lesson":
            return privileged.episode_lesson(turn, episode, prompter)
        if source == "gold":
            return privileged.gold_hint(turn, episode, prompter)
        return privileged.feedback(turn, episode, prompter)


async def score_insertions(
    name: str, pairs: PairedRows, inserted: Sequence[Insertion | None], scorer: Scorer, tally: Tally
) -> list[Floats | None]:
    """Log-probs of every row's response under its privileged prompt; None without one, or where it is too long."""
    requests = insertion_requests(name, pairs, inserted, scorer, tally)
    scores = iter(await scorer.logprobs([request for request in requests if request is not None]))
    result = [None if request is None else next(scores) for request in requests]
    note_scores(name, pairs, result, tally)
    return result


def insertion_requests(
    name: str, pairs: PairedRows, inserted: Sequence[Insertion | None], scorer: Scorer, tally: Tally
) -> list[ScoreRequest | None]:
    """Every row's response under its privileged prompt; what has none, or does not fit, is counted."""
    result = []
    for (turn, _), insertion in zip(pairs, inserted, strict=True):
        request = None
        if insertion is None:
            tally.add(f"{name}_skipped/no_text")
        else:
            assert_unhinted(turn.messages, [insertion.text])
            request = scorer.request(insertion.messages, turn.response_ids)
            if request is None:
                tally.add(f"{name}_skipped/prompt_too_long")
        result.append(request)
    return result


def note_scores(name: str, pairs: PairedRows, scores: Sequence[Floats | None], tally: Tally) -> None:
    """Count tokens and mean gap; a configured signal that reached no token is counted, and the trainer says so."""
    for (_, row), logprobs in zip(pairs, scores, strict=True):
        if logprobs is not None:
            tally.add(f"{name}_tokens", len(logprobs))
            tally.mean(f"{name}_gap", float(np.mean(logprobs - row.old_logprobs)), len(logprobs))
    if tally.get(f"{name}_tokens") == 0:
        tally.add(f"signal_empty/{name}")


def shift(turn: Turn, row: Row, advantages: Floats) -> None:
    """Give the row other advantages and keep the difference on its turn."""
    turn.scores[SHIFT] = tuple((advantages - row.advantages).tolist())
    row.advantages = advantages
