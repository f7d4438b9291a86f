from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.credit import opid_advantages
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.opid import OPIDSettings


def test_the_formula() -> None:
    got = opid_advantages(0.5, [-0.2, -0.5], [-0.1, -2.0], [-0.4, -0.1])
    np.testing.assert_allclose(got, [0.5 + 0.001 * (0.1 - 0.2), 0.5 + 0.001 * (-1.5 + 0.4)])


@pytest.mark.parametrize("notes", [True, False])
def test_both_skills_are_added_to_the_mean_only_advantage(easy, scripted_teacher, notes) -> None:
    class Noting(scripted_teacher):
        async def analyse(self, episode, max_pivots):
            report = await super().analyse(episode, max_pivots)
            noted = {c.turn: f"turn {c.turn} was wasted" for c in report.candidates}
            report = replace(report, turn_lessons=noted if notes else {})
            return report

    settings = OPIDSettings(group=4, episode_weight=0.3, step_weight=0.2)
    played = easy(settings, teacher=Noting())
    plain = easy(GRPOSettings(group=4, normalise="mean"))
    turns = {(e.id, t.index): t for g in played.groups for e in g.episodes for t in e.turns}
    prompter, score, steps = played.scorer.prompter, played.policy.logprobs, 0
    for row, base in zip(played.rows, plain.rows, strict=True):
        turn = turns[row.episode, row.turn]
        whole = score([played.scorer.with_lesson(turn, "light the lamps first")])[0]
        expected = base.advantages + 0.3 * (whole - row.old_logprobs)
        done = turn.valid and turn.executed == turn.observation.admissible[-1]
        if row.turn in (1, 3) and (notes or not done):
            steps += 1
            text = (
                prompter.lesson_text(f"turn {row.turn} was wasted")
                if notes
                else prompter.hint_text(turn.observation.admissible[-1])
            )
            expected = expected + 0.2 * (score([played.scorer.hinted(turn, text)])[0] - row.old_logprobs)
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)
    assert steps
    assert played.tally["step_skill_tokens"] < played.tally["episode_skill_tokens"]


def test_one_weight_alone_asks_for_one_skill(easy, scripted_teacher) -> None:
    settings = OPIDSettings(group=4, step_weight=0.0)
    played = easy(settings, teacher=scripted_teacher())
    assert played.tally["episode_skill_tokens"] == sum(len(r.response_ids) for r in played.rows)
    assert "step_skill_tokens" not in played.tally


def test_a_skill_that_is_never_found_is_said_aloud(easy, scripted_teacher) -> None:
    teacher = scripted_teacher(turns=lambda episode: [])
    played = easy(OPIDSettings(group=4), teacher=teacher)
    assert played.tally["signal_empty/step_skill"] == 1
    assert "signal_empty/episode_skill" not in played.tally


def test_it_needs_a_naming_teacher_only_with_weights(easy) -> None:
    with pytest.raises(ConfigError, match=r"teacher\.kind"):
        easy(OPIDSettings(group=2))
    assert easy(OPIDSettings(group=2, episode_weight=0.0, step_weight=0.0)).rows
