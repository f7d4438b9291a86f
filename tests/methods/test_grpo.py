from __future__ import annotations

import numpy as np

from turnpoint.methods.grpo import GRPOSettings
from turnpoint.records import StopReason
from turnpoint.testing import crashing_suite


def test_advantages_are_the_group_normalised_outcome(play) -> None:
    played = play(GRPOSettings(group=8))
    by_episode = {row.episode: row.advantages for row in played.rows}
    for group in played.groups:
        scores = np.array([e.total_reward for e in group.episodes])
        expected = (scores - scores.mean()) / (scores.std(ddof=1) + 1e-6) if np.ptp(scores) else scores * 0
        for episode, value in zip(group.episodes, expected, strict=True):
            np.testing.assert_allclose(by_episode[episode.id], value)
            np.testing.assert_allclose(episode.turns[0].scores["advantage"], value)


def test_one_row_per_turn_with_the_sampled_tokens(play) -> None:
    played = play(GRPOSettings(group=4))
    turns = [t for g in played.groups for e in g.episodes for t in e.turns]
    assert len(turns) == len(played.rows)
    for turn, row in zip(turns, played.rows, strict=True):
        assert row.prompt_ids == turn.prompt_ids
        assert row.response_ids == turn.response_ids
        assert row.old_logprobs.tolist() == list(turn.logprobs)
        assert len(set(row.advantages.tolist())) == 1
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled


def test_invalid_turns_pay_a_penalty(play) -> None:
    played = play(GRPOSettings(group=4, normalise="mean", invalid_penalty=0.5))
    penalised = 0
    for row, other in zip(played.rows, play(GRPOSettings(group=4, normalise="mean")).rows, strict=True):
        if not row.valid:
            penalised += 1
            assert row.advantages[0] < other.advantages[0]
    assert penalised


def test_a_group_of_one_gives_no_signal(play) -> None:
    assert all(not row.advantages.any() for row in play(GRPOSettings(group=1)).rows)


def test_broken_episodes_train_nothing_and_are_counted(play) -> None:
    played = play(GRPOSettings(group=4), suite=crashing_suite(fault_every=2))
    broken = [e for g in played.groups for e in g.episodes if e.stop == StopReason.ENV_ERROR]
    assert broken
    assert not {e.id for e in broken} & {row.episode for row in played.rows}
    assert played.tally["dropped_episodes/env_error"] == len(broken)
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/env_error"] == played.sampled
