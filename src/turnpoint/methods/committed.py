"""PivotOPD where one action is the work (its software setting): the last turn is the pivot, another model the scorer.

The paper trains repository repair with m = 1 at the final committed action, K = 0 and w_prev = 0.1, and takes the
hinted distribution from an external teacher instead of the student itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from turnpoint.methods.beyond import BeyondPivotOPDSettings
from turnpoint.methods.counsel import Counsel
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.scoring import TEACHER, score_turns
from turnpoint.methods.situations import situation
from turnpoint.methods.tally import Tally
from turnpoint.policy import ScoreRequest
from turnpoint.policy.protocol import Floats
from turnpoint.records import Episode, Row, Turn

Wanted = tuple[str, float, Turn, Row, ScoreRequest]
"""A term, its weight, the turn and row it belongs to, and the turn's response under the hinted prompt."""


class CommittedSettings(BeyondPivotOPDSettings):
    """Which turn is pivotal, and whose hinted distribution is distilled."""

    pivot: Literal["named", "last"] = "named"
    """``named``: the turns that the teacher names; ``last``: the last turn of each episode (the submitted action), for
    which the teacher is asked for the best action."""
    hinted_by: Literal["student", "scoring"] = "student"
    """Whose log-probs under the hinted prompt are distilled: the frozen student's, or those of the ``scoring`` teacher,
    which is shown the hint."""

    @model_validator(mode="after")
    def _last_has_no_lesson(self) -> Self:
        if self.pivot == "last" and getattr(self, "w_traj", 0.0) > 0:
            raise ValueError(
                "pivot: last asks for one action and no report, so there is no lesson; set w_traj to 0"
            )
        return self

    def check_committed(self, teachers: Teachers) -> None:
        """Raise ``ConfigError`` if nobody can score hinted prompts."""
        if self.hinted_by == "scoring":
            teachers.require_scoring("pivotopd (hinted_by: scoring)")


async def last_candidate(episode: Episode, counsel: Counsel) -> list[tuple[int, str]]:
    """The last turn with the action that the teacher would have taken there; empty if it names none."""
    last = len(episode.turns) - 1
    gold = await counsel.ask(situation(episode, last))
    return [] if gold is None else [(last, gold)]


async def outside_logprobs(
    wanted: Sequence[Wanted], episodes: Mapping[str, Episode], teachers: Teachers, tally: Tally
) -> list[tuple[Wanted, Floats]]:
    """The scoring teacher's log-probs of each response under its hinted prompt; what it cannot give is counted."""

    async def ask(one: Wanted) -> tuple[Wanted, Floats] | None:
        name, _, turn, row, request = one
        episode = episodes[row.episode]
        shown = replace(turn, prompt_ids=request.prompt_ids, scores={})
        # Under a name of its own: what a teacher keeps of the episode has other prompts.
        apart = replace(episode, id=f"{episode.id}/{name}/{turn.index}", turns=[shown])
        if await score_turns(apart, [shown], teachers.scoring_for(episode.task), tally):
            return one, np.asarray(shown.scores[TEACHER])
        tally.add(f"{name}_skipped/teacher_failed")
        return None

    answers = await asyncio.gather(*(ask(one) for one in wanted))
    return [answer for answer in answers if answer is not None]
