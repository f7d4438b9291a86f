from __future__ import annotations

import asyncio

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.methods import PlaysAttempts, Teachers
from turnpoint.methods.gigpo import GiGPOSettings
from turnpoint.records import RowKind
from turnpoint.testing import crashing_suite, toy_suite

from .chain_tools import attempt, group_of


def credited(*groups, **settings) -> dict[str, list[float]]:
    """Advantages of every episode's rows, in order of turns."""
    method = GiGPOSettings(**settings).build()
    rows = asyncio.run(method.credit([group_of(g) for g in groups], None, Teachers()))
    found: dict[str, list[float]] = {}
    for row in rows:
        assert len(set(row.advantages.tolist())) == 1
        found.setdefault(row.episode, []).append(row.advantages[0])
    return found


def pair():
    a = attempt([0, 0, 10], ["s0", "s1", "s2"], success=True)
    return a, attempt([0, 0], ["s0", "s1"], chain="B")


@pytest.mark.parametrize(
    ("normalise", "baseline", "a", "b"),
    [
        ("mean", "rows", [8.5125, 8.75, 4], [-10.5125, -10.75]),
        ("mean", "episodes", [9.5125, 9.75, 5], [-9.5125, -9.75]),
        ("mean_std", "rows", [1.437403, 1.437403, 0.730297], [-1.802552, -1.802552]),
        ("mean_std", "episodes", [1.414213, 1.414213, 0.707107], [-1.414213, -1.414213]),
    ],
)
def test_worked_advantages(normalise, baseline, a, b) -> None:
    got = credited(pair(), normalise=normalise, baseline=baseline)
    np.testing.assert_allclose(got["A0"], a, atol=2e-6)
    np.testing.assert_allclose(got["B0"], b, atol=2e-6)


def test_a_state_that_is_met_twice_in_one_episode() -> None:
    a = attempt([0, 0, 0, 1], ["s0", "s1", "s0", "s2"], success=True)
    got = credited((a, attempt([0, 0], ["s0", "s3"], chain="B")), gamma=0.9)
    np.testing.assert_allclose(got["A0"], [0.686, 0.5, 0.857, 0.5])
    np.testing.assert_allclose(got["B0"], [-1.043, -0.5])


def test_states_are_compared_within_a_task_only() -> None:
    a, b = pair()
    got = credited((a,), (b,))
    assert got["A0"] == [0.0, 0.0, 0.0]
    assert got["B0"] == [0.0, 0.0]


def test_weights_of_the_levels() -> None:
    np.testing.assert_allclose(credited(pair(), omega=0.0)["A0"], [5, 5, 5])
    np.testing.assert_allclose(credited(pair(), episode_weight=0.0)["A0"], [4.5125, 4.75, 0])
    np.testing.assert_allclose(credited(pair(), omega=2, episode_weight=0.1)["B0"], [-9.525, -10.0])


def test_invalid_turns_pay_at_both_levels() -> None:
    a, b = pair()
    fined = attempt([0, 0], ["s0", "s1"], chain="B", invalid=[1])
    plain, got = credited((a, b)), credited((a, fined), invalid_penalty=0.5)
    # Score of the row -.5, baseline -.5/4; return of the row -.5, baseline of s1 -.25.
    assert got["B0"][1] == pytest.approx(plain["B0"][1] - 0.5 + 0.125 - 0.25)
    assert got["A0"][2] == pytest.approx(plain["A0"][2] + 0.125)


def test_without_state_keys_equal_observations_are_compared() -> None:
    a, b = pair()
    for episode in (a, b):
        for turn in episode.turns:
            turn.observation = type(turn.observation)(turn.observation.text)
    np.testing.assert_allclose(credited((a, b))["A0"], [9.5125, 9.75, 5])


def test_a_whole_step_trains_every_token(play) -> None:
    played = play(GiGPOSettings(group=6), suite=toy_suite(rooms=2, max_turns=25))
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled
    assert {row.kind for row in played.rows} == {RowKind.ACT}
    assert any(row.advantages.any() for row in played.rows)
    episodes = {e.id: e for g in played.groups for e in g.episodes}
    for row in played.rows:
        assert episodes[row.episode].turns[row.turn].scores["advantage"] == tuple(row.advantages)
    assert not isinstance(played.method, PlaysAttempts)
    assert played.method.state_dict() == {}


def test_broken_episodes_train_nothing_and_are_counted(play) -> None:
    played = play(GiGPOSettings(group=4), suite=crashing_suite(fault_every=2))
    trained = sum(len(row.response_ids) for row in played.rows)
    assert played.tally["dropped_tokens/env_error"] > 0
    assert trained + played.tally["dropped_tokens/env_error"] == played.sampled


def test_a_step_of_faults_alone_gives_no_rows(play) -> None:
    assert play(GiGPOSettings(group=2), suite=crashing_suite(fault_turn=0)).rows == []


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"group\n.*greater than"):
        GiGPOSettings(group=0)
