"""Answers that are none are refused by name; sound ones pass through untouched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from turnpoint.envs.sound import Nonsense, SoundEnv, sound_observation, sound_step
from turnpoint.records import Observation, Step
from turnpoint.testing import ToyEnv, ToySettings, toy_suite

SEEN = Observation("a room", ("go left",), "k")
STEP = Step(SEEN, 1.0, False)


def test_a_sound_environment_is_played_as_it_is() -> None:
    suite = toy_suite()
    task = suite.tasks("train")[0]
    env, plain = SoundEnv(suite.make()), suite.make()
    assert env.reset(task) == plain.reset(task)
    for _ in range(4):
        best = env.best_actions("full")
        assert best == plain.best_actions("full")
        assert env.distance() == plain.distance()
        assert env.step(best[0]) == plain.step(best[0])
    assert env.restore(env.snapshot()) == plain.restore(plain.snapshot())
    assert env.capabilities == plain.capabilities


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("a room", "no Observation"),
        (replace(SEEN, text=None), "text is None"),
        (replace(SEEN, admissible=["go left"]), "neither a tuple of texts"),
        (replace(SEEN, admissible=("go left", 3)), "neither a tuple of texts"),
        (replace(SEEN, state_key=7), "state key is 7"),
    ],
)
def test_observations(answer: Any, said: str) -> None:
    with pytest.raises(Nonsense, match=said):
        sound_observation(answer)
    with pytest.raises(Nonsense, match=said):
        sound_step(replace(STEP, observation=answer))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((SEEN, 1.0, False, {}), "no Step"),
        (replace(STEP, reward=float("inf")), "reward is inf"),
        (replace(STEP, reward=True), "reward is True"),
        (replace(STEP, reward=np.zeros(2)), "no finite number"),
        (replace(STEP, done=1), "'done' is 1, not one of True, False"),
        (replace(STEP, done=None), "'done' is None"),
        (replace(STEP, success="yes"), "'success' is 'yes'"),
        (replace(STEP, effective=None), "'effective' is None"),
        (replace(STEP, score=1.5), "score is 1.5, neither a number from 0 to 1 nor None"),
        (replace(STEP, score=float("nan")), "score is nan"),
        (replace(STEP, score=True), "score is True"),
        (replace(STEP, score="high"), "score is 'high'"),
    ],
)
def test_steps(answer: Any, said: str) -> None:
    with pytest.raises(Nonsense, match=said):
        sound_step(answer)


def test_numbers_of_numpy_are_numbers() -> None:
    for number in (np.float64(0.5), np.float32(0.5), 1, np.int64(1)):
        step = sound_step(replace(STEP, reward=number, score=number))
        assert type(step.reward) is type(step.score) is float
        assert step.reward == step.score == number


class LyingOracle(ToyEnv):
    def distance(self) -> Any:
        return -1

    def best_actions(self, knowledge: Any = "full") -> Any:
        return "go left"


def test_oracles() -> None:
    env = SoundEnv(LyingOracle(ToySettings()))
    with pytest.raises(Nonsense, match="neither a whole number"):
        env.distance()
    with pytest.raises(Nonsense, match="no list of texts"):
        env.best_actions()
