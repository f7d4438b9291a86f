from __future__ import annotations

import numpy as np
import pytest

from turnpoint.credit import agentopsd_advantages, agentopsd_multipliers
from turnpoint.methods.agentopsd import AgentOPSDSettings
from turnpoint.methods.grpo import GRPOSettings


def test_worked_numbers_with_the_methods_defaults() -> None:
    s = AgentOPSDSettings()
    got = agentopsd_advantages(1.0, [0.5, -1.0, 0.2], mix=s.mix, prior=s.prior, scale=s.scale, clip=s.clip)
    np.testing.assert_allclose(got, [1.092871, 0.9, 1.045928], atol=1e-6)


@pytest.mark.parametrize("turn_score", ["sum", "mean"])
def test_turns_share_the_outcome_by_what_they_did_to_the_belief(easy, turn_score) -> None:
    settings = AgentOPSDSettings(group=4, privileged="feedback", turn_score=turn_score, mix=0.7)
    played = easy(settings)
    plain = {r.episode: r.advantages[0] for r in easy(GRPOSettings(group=4)).rows}
    varied = 0
    for group in played.groups:
        for episode in group.episodes:
            rows = [row for row in played.rows if row.episode == episode.id]
            gaps = []
            for turn, row in zip(episode.turns, rows, strict=True):
                after = episode.observation_at(turn.index + 1).text
                text = f"After your reply the environment will answer: {after}\nNever mention that you know this."
                scored = played.policy.logprobs([played.scorer.hinted(turn, text)])[0]
                gap = scored - row.old_logprobs
                gaps.append(gap.sum() if turn_score == "sum" else gap.mean())
            advantage = plain[episode.id]
            weights = 0.3 + 0.7 * agentopsd_multipliers(advantage, gaps)
            for row, weight in zip(rows, weights, strict=True):
                np.testing.assert_allclose(row.advantages, advantage * weight, atol=1e-12)
                assert len(set(row.advantages.tolist())) == 1
                assert np.sign(row.advantages[0]) == np.sign(advantage)
            varied += len({row.advantages[0] for row in rows}) > 1
    assert varied


def test_turns_without_a_teacher_move_no_belief(easy, scripted_teacher) -> None:
    """With the gold action of one turn only, the others have equal gains and so equal weights."""
    teacher = scripted_teacher(turns=lambda episode: [1])
    settings = AgentOPSDSettings(group=4, privileged="gold")
    played = easy(settings, teacher=teacher)
    for group in played.groups:
        for episode in group.episodes:
            weights = {
                row.advantages[0] for row in played.rows if row.episode == episode.id and row.turn != 1
            }
            assert len(weights) <= 1
