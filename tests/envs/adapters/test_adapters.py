"""What all adapters share: tasks, processes, checked answers, recovery, streams of their own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from turnpoint.envs import EnvError, env_registry
from turnpoint.envs.adapters.game import Nonsense, Shown, checked
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.check import check_env
from turnpoint.envs.child import ChildCrashed, ChildHung
from turnpoint.records import StopReason
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy

Build = Callable[..., AdapterSuite]
KINDS = ("gymnasium", "openenv", "verifiers", "skyrl_gym", "reasoning_gym", "textarena")


@pytest.mark.parametrize("processes", [0, 1])
def test_the_contract_is_kept(counting: Build, processes: int) -> None:
    suite = counting(processes=processes, vocabulary_walks=5)
    report = check_env(suite, tasks=3, quick=True)
    assert report.ok, report.failures
    assert {check.name for check in report.checks if not check.skipped} >= {"fork", "replay", "vocabulary"}


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("nan", "the reward is nan"),
        ("word", "the reward is a str, not a number"),
        ("bytes", "the observation is a bytes, not a text"),
        ("maybe", "'done' is a str"),
        ("long", "300000 characters"),
    ],
)
def test_nonsense_ends_the_episode_by_its_name(
    counting: Build, fault: str, says: str, processes: int
) -> None:
    suite = counting(fault=fault, processes=processes)
    env, task = suite.make(), suite.tasks("train")[0]
    env.reset(task)
    with pytest.raises(Nonsense, match=says):
        env.step("trip")
    assert env.reset(task).text == "You are at 0."


@pytest.mark.parametrize(
    ("fault", "error"),
    [("hang", ChildHung), ("crash", ChildCrashed), ("eat", ChildCrashed), ("raise", EnvError)],
)
def test_a_broken_process_costs_one_episode(counting: Build, fault: str, error: type[EnvError]) -> None:
    """Other episodes of the same process are brought back, and the copy that broke it plays on with a new task."""
    suite = counting(fault=fault, call_seconds=20.0 if fault != "hang" else 1.0)
    broken, other = suite.make(), suite.make()
    for env, task in zip((broken, other), suite.tasks("train")[:2], strict=True):
        env.reset(task)
    drawn = other.step("draw").observation.text
    other.step("up")
    with pytest.raises(error):
        broken.step("trip")
    assert other.step("up").observation.text == "You are at 2."
    assert other.step("up").success is True
    assert broken.reset(suite.tasks("train")[2]).text == "You are at 0."
    assert other.reset(suite.tasks("train")[1]).text == "You are at 0."
    assert other.step("draw").observation.text == drawn


def test_episodes_that_do_not_repeat_themselves_are_not_brought_back(counting: Build) -> None:
    suite = counting(fault="crash", deterministic=False)
    suite.capabilities = type(suite.capabilities)(False, False, False, False)
    broken, other = suite.make(), suite.make()
    for env in (broken, other):
        env.reset(suite.tasks("train")[0])
    with pytest.raises(ChildCrashed):
        broken.step("trip")
    with pytest.raises(EnvError, match="not deterministic"):
        other.step("up")


def test_a_process_that_grows_is_replaced_and_counted(counting: Build) -> None:
    suite = counting(fault="grow", process_mb=300)
    growing, other = suite.make(), suite.make()
    for env in (growing, other):
        env.reset(suite.tasks("train")[0])
    other.step("up")
    assert growing.step("trip").observation.text == "ok"
    assert other.step("up").observation.text == "You are at 2."
    assert suite.counters()["lost_processes_memory"] == 1


def test_a_game_that_cannot_be_made_says_why(counting: Build) -> None:
    suite = counting(fault="no start")
    with pytest.raises(EnvError, match="there is no board"):
        suite.make().reset(suite.tasks("train")[0])


@pytest.mark.parametrize("processes", [0, 1])
def test_the_global_stream_belongs_to_the_episode(counting: Build, processes: int) -> None:
    suite = counting(processes=processes)
    one, two = suite.make(), suite.make()
    tasks = suite.tasks("train")
    one.reset(tasks[0])
    alone = [one.step("draw").observation.text for _ in range(3)]
    random.seed(1)
    before = random.getstate()
    one.reset(tasks[0])
    two.reset(tasks[1])
    mixed = []
    for _ in range(3):
        mixed.append(one.step("draw").observation.text)
        two.step("draw")
    assert mixed == alone
    assert random.getstate() == before


def test_a_run_goes_on_after_faults(counting: Build) -> None:
    """Every third episode trips; each of them is a record with its reason, the others succeed."""
    suite = counting(fault="crash")

    def script(prompt: str, seed: int) -> str:
        trips = "train-0" in prompt or "train-3" in prompt
        return "<action>trip</action>" if trips else "<action>up</action>"

    rollouts, _ = make_rollouts(_named(suite), ScriptedPolicy(script))

    async def play() -> list[tuple[StopReason, str]]:
        tasks = _named(suite).tasks("train")[:6]
        episodes = await asyncio.gather(*(rollouts.play(task, 0) for task in tasks))
        await rollouts.close()
        return [(episode.stop, episode.error) for episode in episodes]

    stops = asyncio.run(play())
    assert [stop for stop, _ in stops].count(StopReason.SUCCESS) == 4
    assert all(stops[number][0] is StopReason.ENV_ERROR for number in (0, 3))
    assert "ended with code 7" in stops[0][1]


def _named(suite: AdapterSuite) -> AdapterSuite:
    """The suite with tasks that the prompt tells apart."""
    from dataclasses import replace

    plain = AdapterSuite.draw

    def draw(self: AdapterSuite, split: str, number: int):
        return replace(plain(self, split, number), instruction=f"train-{number}")

    suite.tasks = lambda split: [draw(suite, split, number) for number in range(6)]  # type: ignore[method-assign]
    return suite


def test_numbers_of_other_libraries_become_plain_ones() -> None:
    numpy = pytest.importorskip("numpy")
    shown = checked(Shown("x", numpy.float32(0.5), numpy.bool_(True), numpy.bool_(True)), 10)
    assert shown == Shown("x", 0.5, True, True)
    assert type(shown.reward) is float
    assert checked(Shown("x", None), 10).reward == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_listed_without_their_libraries(kind: str) -> None:
    settings = env_registry.get(kind)
    told = settings.describe()
    assert not told["snapshots"]
    assert not told["oracle"]
    assert settings.extra
    assert told["replay"] is (kind != "openenv")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"kind": "gymnasium", "actions": ["a", "A"]}, "different names"),
        ({"kind": "gymnasium", "observation": "pixels"}, "observation must be"),
        ({"kind": "openenv", "base_url": "localhost:8000"}, "base_url must be an address"),
        ({"kind": "skyrl_gym", "id": "aime"}, "train is generated"),
        ({"kind": "reasoning_gym", "options": {"sudoku": {}}}, "not among env.datasets"),
        ({"kind": "textarena", "game_id": "Nim-v0-raw"}, "without -raw"),
        ({"kind": "textarena", "opponent": "strong"}, "random or fixed"),
    ],
)
def test_impossible_settings_are_refused_by_name(section: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        env_registry.parse(section)
