"""Gymnasium itself: toy environments, Text spaces, functions of the user's, faults, and the other direction."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.adapters.game import Nonsense
from turnpoint.envs.adapters.gymnasium.settings import GymnasiumSettings
from turnpoint.envs.adapters.gymnasium.suite import GymSuite
from turnpoint.envs.check import check_env
from turnpoint.envs.exports.gymnasium import gymnasium_env
from turnpoint.testing import toy_suite

pytestmark = pytest.mark.adapters

OWN = '''
import json, time
import gymnasium
from gymnasium.spaces import Box, Discrete, Text


class Echo(gymnasium.Env):
    """Says what is said; 'win' ends it."""

    observation_space = Text(200)
    action_space = Text(20)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(100))
        return f"number {self.number}", {}

    def step(self, action):
        won = action == "win"
        return f"you said {action}", float(won), won, False, {"is_success": won, "turns": 3}


class Dial(gymnasium.Env):
    """Discrete actions that do not start at 0, and an observation of numbers."""

    observation_space = Box(0, 10, (2,))
    action_space = Discrete(2, start=5)

    def __init__(self, fault=""):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observe(), {}

    def observe(self):
        import numpy
        return numpy.array([self.at, 1.5])

    def step(self, action):
        if self.fault == "hang":
            time.sleep(60)
        if self.fault == "four":
            return self.observe(), 0.0, False, {}
        import numpy
        self.at += 1 if action == 6 else -1
        reward = float("nan") if self.fault == "nan" else numpy.float32(0.25)
        return self.observe(), reward, self.at == 4, False, {}


def words(env, observation, info):
    return b"raw" if env.unwrapped.fault == "bytes" else f"dial at {int(observation[0])}"


def turn(env, text):
    return {"left": 5, "right": 6}.get(text)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_envs.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(tmp_path)
    return "own_envs"


def make(**settings: Any) -> GymSuite:
    return GymnasiumSettings.model_validate(settings).build()


@pytest.mark.parametrize("identifier", ["Taxi-v4", "Blackjack-v1", "CliffWalking-v1"])
def test_toy_environments_keep_the_contract(identifier: str) -> None:
    report = check_env(make(id=identifier, processes=0, max_turns=6), tasks=2, quick=True)
    assert report.ok, report.failures


def test_frozen_lake_keeps_the_contract_for_five_hundred_resets() -> None:
    report = check_env(make(vocabulary_walks=40), tasks=3)
    assert report.ok, report.failures
    ran = {check.name for check in report.checks if not check.skipped}
    assert ran >= {"replay", "fork", "memory", "vocabulary", "admissible actions", "other process"}


def test_frozen_lake_is_won_by_the_way_through() -> None:
    suite = make(options={"is_slippery": False})
    env = suite.make()
    first = env.reset(suite.tasks("train")[0])
    assert first.text == "[S]FFF\nFHFH\nFFFH\nHFFG"
    assert first.admissible == ("left", "down", "right", "up")
    refused = env.step("jump")
    assert not refused.effective
    assert "[S]FFF" in refused.observation.text
    for action in ("Down", " down ", "right", "right", "down"):
        assert not env.step(action).done
    last = env.step("right")
    assert (last.reward, last.done, last.success) == (1.0, True, True)
    again = env.step("right")
    assert (again.reward, again.done, again.success, again.effective) == (0.0, True, True, False)
    env.reset(suite.tasks("train")[0])
    for action in ("down", "right"):
        fallen = env.step(action)
    assert (fallen.done, fallen.success) == (True, False)


def test_taxi_says_what_its_drawing_shows_in_colours() -> None:
    suite = make(id="Taxi-v4")
    text = suite.make().reset(suite.tasks("train")[0]).text
    assert "Passenger at " in text
    assert "\x1b" not in text


def test_seeds_are_gymnasiums_own() -> None:
    suite = make(id="Blackjack-v1")
    env, raw = suite.make(), gymnasium.make("Blackjack-v1")
    for task in suite.tasks("train")[:5]:
        observation, _ = raw.reset(seed=task.seed)
        assert env.reset(task).text == str([int(part) for part in observation])


def test_text_spaces_are_text(own: str) -> None:
    suite = make(id=f"{own}:Echo", show_info=["turns"])
    assert not suite.capabilities.admissible
    env = suite.make()
    assert env.reset(suite.tasks("train")[3]).text.startswith("number ")
    assert env.step("hello").observation.text == "you said hello\nturns: 3"
    assert not env.step("much too long for this space").effective
    assert env.step("win").success is True
    assert check_env(suite, tasks=2, quick=True).ok


def test_numbers_and_names_of_discrete_spaces(own: str) -> None:
    suite = make(id=f"{own}:Dial", success_return=1.0)
    env = suite.make()
    first = env.reset(suite.tasks("train")[0])
    assert (first.text, first.admissible) == ("[0.0, 1.5]", ("5", "6"))
    named = make(id=f"{own}:Dial", actions=["Left", "Right"], observation=f"{own}:words", success_return=1.0)
    env = named.make()
    assert env.reset(named.tasks("train")[0]).text == "dial at 0"
    for _ in range(3):
        assert not env.step("right").done
    assert env.step("RIGHT").success is True
    read = make(id=f"{own}:Dial", actions=f"{own}:turn", observation=f"{own}:words").make()
    read.reset(named.tasks("train")[0])
    assert read.step("right").observation.text == "dial at 1"
    assert not read.step("up").effective


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        ("hang", EnvError, "took longer"),
        ("nan", Nonsense, "the reward is nan"),
        ("four", Nonsense, "tuple of 4, not five values"),
        ("bytes", Nonsense, "is a bytes"),
    ],
)
def test_faulty_environments_cost_an_episode(own: str, fault: str, error: type[Exception], says: str) -> None:
    suite = make(id=f"{own}:Dial", options={"fault": fault}, observation=f"{own}:words", call_seconds=3.0)
    env = suite.make()

    def play() -> None:
        env.reset(suite.tasks("train")[0])
        env.step("6")

    with pytest.raises(error, match=says):
        play()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"id": "NoSuchLake-v1"}, "cannot be made"),
        ({"id": "no_such_module:Lake"}, "cannot be imported"),
        ({"id": "json:JSONDecoder"}, "not a gymnasium.Env"),
        ({"actions": ["one", "two"]}, "2 names, but the environment has 4"),
        ({"observation": "text"}, "env.observation is text"),
        ({"options": {"size": 3}}, "cannot be made with env.options"),
    ],
)
def test_what_cannot_be_played_is_said_before_anything_starts(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvDataError, match=says):
        make(**settings)


def test_ours_as_a_gymnasium_environment() -> None:
    from gymnasium.utils.env_checker import check_env as gymnasium_check

    env = gymnasium_env(toy_suite(), "valid")
    gymnasium_check(env, skip_render_check=True)
    text, info = env.reset(options={"index": 2})
    assert text.startswith("Your task: Open the chest")
    assert "wait" in info["admissible"]
    for turn in range(20):
        text, reward, _, truncated, info = env.step("wait")
        assert reward == 0.0
        assert truncated is (turn == 19)
    assert info["is_success"] is False
    assert env.reset(seed=2)[0] == env.reset(options={"index": 2})[0]
    env.close()


def test_ours_through_gymnasium_and_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        "from turnpoint.envs.exports.gymnasium import gymnasium_env\n"
        "from turnpoint.testing import toy_suite\n\n\ndef corridor():\n    return gymnasium_env(toy_suite())\n"
    )
    (tmp_path / "round_trip.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    suite, ours = make(id="round_trip:corridor"), toy_suite()
    env, direct = suite.make(), ours.make()
    seen = env.reset(suite.tasks("train")[4])
    assert seen.text.endswith(direct.reset(ours.tasks("train")[4]).text)
    for action in ("switch on lamp", "go left", "go right", "nonsense"):
        assert env.step(action).observation.text == direct.step(action).observation.text
