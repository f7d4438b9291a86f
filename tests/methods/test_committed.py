"""PivotOPD's software setting: the last turn is the pivot, and a scoring teacher sees the hint."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.records import RowKind
from turnpoint.teachers.protocol import TeacherError, TeacherFailure
from turnpoint.testing import toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring

SWE = {
    "pivot": "last",
    "hinted_by": "scoring",
    "recovery_turns": 0,
    "w_prev": 0.1,
    "w_traj": 0.0,
    "max_pivots": 1,
}
ZERO = {"w_prev": 0.0, "w_traj": 0.0, "recovery_turns": 0}


def last_admissible(where):
    return where.observation.admissible[-1]


class Watching(ScriptedScoring):
    """Keeps the prompts it was shown."""

    async def score(self, episode, turns, first=0):
        self.seen = [*getattr(self, "seen", []), *((episode.id, turn.prompt_ids) for turn in turns)]
        return await super().score(episode, turns, first)


def test_the_last_turn_gets_the_outside_log_ratio_and_nothing_else_does(play, scripted_teacher) -> None:
    scoring = Watching(lambda episode, turn: -0.5)
    teacher = scripted_teacher(recovery=last_admissible)
    played = play(PivotOPDSettings(group=4, **SWE), teacher=teacher, scoring=scoring)
    base = play(PivotOPDSettings(group=4, **ZERO))
    episodes = {episode.id: episode for group in played.groups for episode in group.episodes}
    changed = 0
    for row, plain in zip(played.rows, base.rows, strict=True):
        episode = episodes[row.episode]
        assert row.kind == RowKind.ACT
        (pivot,) = episode.pivots
        assert pivot.turn == len(episode.turns) - 1
        expected = plain.advantages.copy()
        if row.turn == pivot.turn and pivot.resolved is not None:
            expected += 0.1 * (-0.5 - row.old_logprobs)
            changed += 1
        np.testing.assert_allclose(row.advantages, expected, rtol=0, atol=1e-12)
    assert changed == len(scoring.seen) == played.tally["pivots_used"] > 0
    assert played.tally["preventive_tokens"] > 0
    assert all(len(where.turns) == where.turn for where in teacher.asked)


def test_the_scoring_teacher_is_shown_the_hint_and_the_student_is_not_trained_on_it(
    play, scripted_teacher
) -> None:
    scoring = Watching(lambda episode, turn: -0.5)
    played = play(
        PivotOPDSettings(group=4, **SWE), teacher=scripted_teacher(recovery=last_admissible), scoring=scoring
    )
    episodes = {episode.id: episode for group in played.groups for episode in group.episodes}
    decode = played.policy.tokenizer.decode
    for name, prompt in scoring.seen:
        episode = episodes[name.rsplit("/", 2)[0]]
        hint = played.scorer.prompter.hint_text(episode.pivots[0].resolved)
        assert hint in decode(prompt)
        for row in played.rows:
            if row.episode == episode.id:
                assert hint not in decode(row.prompt_ids)
    assert all("teacher" not in turn.scores for episode in episodes.values() for turn in episode.turns)


def test_named_turns_and_lessons_can_be_scored_outside_too(play, scripted_teacher) -> None:
    settings = PivotOPDSettings(group=2, w_prev=0.3, w_traj=0.2, recovery_turns=0, hinted_by="scoring")
    scoring = Watching(lambda episode, turn: -0.25)
    played = play(settings, teacher=scripted_teacher(), scoring=scoring)
    assert len({name for name, _ in scoring.seen}) == len(scoring.seen)
    assert {name.rsplit("/", 2)[1] for name, _ in scoring.seen} == {"preventive", "lesson"}
    assert played.tally["lesson_tokens"] > played.tally["preventive_tokens"] > 0


def test_a_scoring_teacher_that_fails_costs_its_signal_only(play, scripted_teacher) -> None:
    def fail(episode, turn):
        raise TeacherError(TeacherFailure.TIME_OUT, "no answer")

    played = play(
        PivotOPDSettings(group=4, **SWE),
        teacher=scripted_teacher(recovery=last_admissible),
        scoring=ScriptedScoring(fail),
    )
    base = play(PivotOPDSettings(group=4, **ZERO))
    assert played.tally["preventive_skipped/teacher_failed"] == played.tally["pivots_used"] > 0
    assert played.tally["signal_empty/preventive"] == 1
    for row, plain in zip(played.rows, base.rows, strict=True):
        assert row.advantages.tobytes() == plain.advantages.tobytes()


def test_a_naming_teacher_without_an_action_names_no_pivot(play, scripted_teacher) -> None:
    played = play(
        PivotOPDSettings(group=2, **SWE),
        teacher=scripted_teacher(recovery=lambda where: None),
        scoring=ScriptedScoring(),
    )
    assert not any(episode.pivots for group in played.groups for episode in group.episodes)


def test_what_cannot_work_is_refused(scripted_teacher) -> None:
    settings = PivotOPDSettings(**SWE)
    assert settings.asks_scoring
    assert not PivotOPDSettings().asks_scoring
    with pytest.raises(ConfigError, match=r"scoring\.kind"):
        settings.check(toy_suite().capabilities, Teachers(naming=scripted_teacher()))
    with pytest.raises(ValidationError, match="set w_traj to 0"):
        PivotOPDSettings(pivot="last")
