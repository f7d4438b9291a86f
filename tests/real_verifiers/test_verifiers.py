"""verifiers itself: a taskset of one reply, an environment of several turns, and ours as one of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.adapters.game import Nonsense
from turnpoint.envs.adapters.verifiers.settings import VerifiersSettings
from turnpoint.envs.adapters.verifiers.suite import VerifiersSuite
from turnpoint.envs.check import check_env
from turnpoint.testing import toy_suite

pytestmark = pytest.mark.verifiers

HALVING = '''
"""Guess a number; the environment answers until the guess is right, a stop fires or the turns are over."""

import asyncio
import os
import random

import verifiers.v1 as vf

__all__ = ["HalvingEnv", "HalvingTaskset"]


class HalvingConfig(vf.TasksetConfig):
    highest: int = 8


class HalvingData(vf.TaskData):
    secret: int


class HalvingTask(vf.Task[HalvingData]):
    @vf.stop
    async def gave_up(self, trace: vf.Trace) -> bool:
        return trace.last_reply == "I give up"

    @vf.reward(weight=0.5)
    async def brief(self, trace: vf.Trace) -> float:
        return float(trace.num_turns <= 3)

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


class HalvingTaskset(vf.Taskset[HalvingTask, HalvingConfig]):
    INFINITE = True

    def load(self):
        draw = random.Random(0)
        while True:
            secret = draw.randint(1, self.config.highest)
            data = HalvingData(prompt=None, system_prompt="You guess numbers.", secret=secret)
            yield HalvingTask(data, self.config.task)


class HalvingEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=6)


class HalvingEnv(vf.Env[HalvingEnvConfig]):
    async def run(self, task, agents):
        found = 0.0
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn("Guess.")
            while not segment.terminated:
                reply = segment.last_reply
                if reply == "hang":
                    await asyncio.sleep(60)
                if reply == "crash":
                    os._exit(5)
                if reply == "raise":
                    raise KeyError("no such number")
                if reply == "nan":
                    found = float("nan")
                    break
                if reply == str(task.data.secret):
                    found = 1.0
                    break
                higher = reply.isdecimal() and int(reply) < task.data.secret
                segment = await talk.turn("Higher." if higher else "Lower.")
        talk.trace.record_reward("found", found)
'''

TOOLS = """
import verifiers.v1 as vf

__all__ = ["BoxTaskset"]


class BoxTask(vf.Task[vf.TaskData]):
    NEEDS_CONTAINER = True


class BoxTaskset(vf.Taskset[BoxTask]):
    def load(self):
        for _ in range(10):
            yield BoxTask(vf.TaskData(prompt="Look around."))
"""

OURS = """
from turnpoint.envs.exports.verifiers import TurnpointEnv, TurnpointTaskset

__all__ = ["TurnpointEnv", "TurnpointTaskset"]
"""

Make = Callable[..., VerifiersSuite]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Builds suites of the modules above, equal settings once: importing the library takes a process seconds."""
    folder = tmp_path_factory.mktemp("tasksets")
    for name, code in (("halving_vf", HALVING), ("box_vf", TOOLS), ("ours_vf", OURS)):
        (folder / f"{name}.py").write_text(code)
    made: dict[str, VerifiersSuite] = {}

    def build(taskset: str = "halving_vf", **more: Any) -> VerifiersSuite:
        settings = {"taskset": taskset, "train_tasks": 20, "valid_tasks": 5, "call_seconds": 15.0, **more}
        key = repr(settings)
        if key not in made:
            made[key] = VerifiersSettings.model_validate(settings).build()
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield build
        for suite in made.values():
            suite.pool.close()


@pytest.fixture(scope="module")
def sums() -> Iterator[VerifiersSuite]:
    suite = VerifiersSettings().build()
    yield suite
    suite.pool.close()


def secret_of(suite: VerifiersSuite, number: int) -> int:
    from turnpoint.envs.adapters.verifiers.library import TaskList, load_environment

    tasks = TaskList(load_environment(suite.settings).taskset)
    return int(tasks[suite.tasks("train")[number].data["task"]].data.secret)


def test_the_bundled_sums_keep_the_contract_for_five_hundred_resets(sums: VerifiersSuite) -> None:
    report = check_env(sums, tasks=3)
    assert report.ok, report.failures


def test_an_environment_of_several_turns_keeps_the_contract(make: Make) -> None:
    report = check_env(make(), tasks=2, quick=True)
    assert report.ok, report.failures


def test_one_reply_is_scored_by_the_task(sums: VerifiersSuite) -> None:
    env, tasks = sums.make(), sums.tasks("train")
    assert (len(tasks), len(sums.tasks("valid"))) == (80, 20)
    for task in tasks[:3]:
        seen = env.reset(task)
        one, two = (int(word.strip("?")) for word in seen.text.split() if word.strip("?").isdecimal())
        right = env.step(f"That is {one + two}.")
        assert (right.reward, right.done, right.success) == (1.0, True, True)
        env.reset(task)
        assert env.step("That is 0.").success is False


def test_no_task_is_in_both_splits(sums: VerifiersSuite) -> None:
    numbers = [task.data["task"] for split in ("train", "valid") for task in sums.tasks(split)]
    assert sorted(numbers) == list(range(100))


def test_turns_go_to_and_fro_and_rewards_are_the_traces(make: Make) -> None:
    suite = make()
    env = suite.make()
    for number, task in enumerate(suite.tasks("train")[:5]):
        secret, low, high, turns = secret_of(suite, number), 1, 8, 0
        assert env.reset(task).text == "You guess numbers.\n\nGuess."
        while True:
            guess, turns = (low + high) // 2, turns + 1
            step = env.step(str(guess))
            if step.done:
                break
            low, high = (guess + 1, high) if step.observation.text == "Higher." else (low, guess - 1)
        assert guess == secret
        assert (step.reward, step.success) == (1.5 if turns <= 3 else 1.0, True)


def test_stops_and_limits_end_the_episode(make: Make) -> None:
    suite = make()
    env, task = suite.make(), suite.tasks("train")[0]
    env.reset(task)
    given_up = env.step("I give up")
    assert (given_up.done, given_up.success, given_up.reward) == (True, False, 0.5)
    env.reset(task)
    steps = [env.step("0") for _ in range(6)]
    assert [step.done for step in steps] == [False] * 5 + [True]
    assert steps[-1].reward == 0.0


def test_options_reach_the_taskset(make: Make) -> None:
    suite = make(taskset_options={"highest": 1}, processes=0)
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    assert env.step("1").success is True
    env.close()


@pytest.mark.parametrize(
    ("word", "error", "says"),
    [
        ("hang", EnvError, "took longer"),
        ("crash", EnvError, "ended with code 5"),
        ("raise", EnvError, "no such number"),
        ("nan", Nonsense, "the reward is nan"),
    ],
)
def test_faults_cost_one_episode(make: Make, word: str, error: type[Exception], says: str) -> None:
    suite = make()
    env, other = suite.make(), suite.make()
    env.reset(suite.tasks("train")[0])
    other.reset(suite.tasks("train")[1])
    other.step("0")
    with pytest.raises(error, match=says):
        env.step(word)
    assert env.reset(suite.tasks("train")[0]).text.endswith("Guess.")
    assert other.step(str(secret_of(suite, 1))).success is True


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"taskset": "no_such_taskset"}, "cannot load"),
        ({"taskset": "box_vf"}, "needs a container"),
        ({"taskset_options": {"lowest": 2}}, "cannot load"),
        ({"env_id": "user-sim"}, "the agents assistant, user"),
    ],
)
def test_what_needs_more_than_text_is_refused(make: Make, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvDataError, match=says):
        make(**settings)


def test_ours_as_an_environment_of_verifiers(make: Make) -> None:
    """The corridor as a taskset, played through the library's environment class and this adapter."""
    section = {"kind": "turnpoint.testing.toy_env:ToySettings", "train_tasks": 10, "valid_tasks": 4}
    suite = make("ours_vf", taskset_options={"section": section}, processes=0)
    ours = toy_suite(train_tasks=10, valid_tasks=4)
    direct, env = ours.make(), suite.make()
    assert len(suite.tasks("train")) == 8
    for task in suite.tasks("train")[:2]:
        start = direct.reset(ours.tasks("train")[task.data["task"]])
        seen = env.reset(task)
        assert start.text in seen.text
        assert "Admissible actions:\nswitch on lamp" in seen.text or "switch on lamp" in seen.text
        while True:
            action = direct.best_actions()[0]
            expected, step = direct.step(action), env.step(action)
            if step.done:
                break
            assert expected.observation.text in step.observation.text
        assert (step.reward, step.success) == (1.0, True)
