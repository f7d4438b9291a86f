"""The corridor game keeps the contract that other tests lean on."""

from __future__ import annotations

import re
import time
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs.protocol import Env, EnvError
from turnpoint.envs.registry import env_registry
from turnpoint.records import StopReason, Task
from turnpoint.testing import (
    crashing_suite,
    hanging_suite,
    play_actions,
    play_oracle,
    replay_suite,
    stochastic_suite,
    toy_suite,
)
from turnpoint.testing import toy_game as game
from turnpoint.testing.toy_env import KIND, ToySettings, ToySuite


def brute_force_distance(start: game.ToyState, rooms: int) -> int | None:
    """Breadth-first search, independent of the formula."""
    seen, queue = {game.state_key(start)}, deque([(start, 0)])
    while queue:
        state, depth = queue.popleft()
        if state.opened:
            return depth
        for action in game.admissible(state, rooms):
            after = game.advance(state, action)
            if game.state_key(after) not in seen:
                seen.add(game.state_key(after))
                queue.append((after, depth + 1))
    return None


@given(st.integers(0, 60), st.lists(st.sampled_from(game.ACTIONS), max_size=15))
def test_distance_equals_breadth_first_search(number: int, actions: list[str]) -> None:
    suite = toy_suite(rooms=4)
    env = suite.make()
    play_actions(env, suite.tasks("train")[number], actions)
    assert env.distance() == brute_force_distance(env.state, 4)


def test_oracles_win_and_observed_never_looks_ahead() -> None:
    suite = toy_suite()
    env = suite.make()
    for task in suite.tasks("train"):
        full = play_oracle(env, task)
        observed = play_oracle(env, task, knowledge="observed")
        assert full.success
        assert observed.success
        assert len(full.turns) <= len(observed.turns) <= suite.max_turns


def test_observed_actions_do_not_depend_on_what_is_hidden() -> None:
    suite = toy_suite(rooms=3)
    env = suite.make()
    seen = []
    for key in (0, 2):
        env.reset(Task("t", KIND, data={"chest": 1, "key": key, "start": 1}))
        env.step("switch on lamp")
        seen.append(env.best_actions("observed"))
    assert seen[0] == seen[1] == ["go left", "go right"]


def test_thrown_key_makes_the_task_impossible() -> None:
    suite = toy_suite(rooms=2)
    env = suite.make()
    task = Task("t", KIND, data={"chest": 1, "key": 0, "start": 0})
    episode = play_actions(env, task, ["switch on lamp", "take key", "throw key away"])
    assert all(turn.effective for turn in episode.turns)
    assert env.distance() is None
    assert env.best_actions() == env.best_actions("observed") == []


def test_unknown_actions_are_answered() -> None:
    env = toy_suite().make()
    before = env.reset(toy_suite().tasks("train")[0])
    step = env.step("dance\0")
    assert not step.effective
    assert step.observation.text.startswith("Nothing happens.")
    assert step.observation.state_key == before.state_key


def test_tasks_are_fixed_and_splits_apart() -> None:
    assert toy_suite().tasks("train") == toy_suite().tasks("train")
    train = {task.id for task in toy_suite().tasks("train")}
    assert not train & {task.id for task in toy_suite().tasks("valid")}
    with pytest.raises(ValueError, match="no split 'test'"):
        toy_suite().tasks("test")


def test_registry_finds_the_game_by_its_path() -> None:
    suite = env_registry.parse({"kind": KIND, "rooms": 3}).build()
    assert isinstance(suite, ToySuite)
    assert isinstance(suite.make(), Env)
    assert env_registry.parse(KIND) == ToySettings()


def test_vocabulary_is_closed() -> None:
    suite = toy_suite(slip=0.2)
    known = set(re.findall(r"\w+", " ".join(suite.vocabulary_texts())))
    env = suite.make()
    for task in suite.tasks("train")[:10]:
        episode = play_actions(env, task, [*game.ACTIONS, "dance"] * 2)
        for turn in episode.turns:
            shown = [turn.observation.text, task.instruction, *(turn.observation.admissible or ())]
            assert set(re.findall(r"\w+", " ".join(shown))) <= known


def test_stochastic_game_differs_between_resets() -> None:
    suite = stochastic_suite(slip=0.5)
    assert not suite.capabilities.deterministic
    env, task = suite.make(), suite.tasks("train")[0]
    seen = {
        tuple(turn.observation.text for turn in play_actions(env, task, ["go left", "go right"] * 5).turns)
        for _ in range(5)
    }
    assert len(seen) > 1


def test_variants_go_wrong_as_promised() -> None:
    task = toy_suite().tasks("train")[0]
    with pytest.raises(RuntimeError, match="collapsed"):
        play_actions(crashing_suite().make(), task, ["wait"] * 3)
    with pytest.raises(EnvError, match="closed"):
        play_actions(crashing_suite(fault="env_error").make(), task, ["wait"] * 3)
    begin = time.perf_counter()
    play_actions(hanging_suite(hang_seconds=0.05).make(), task, ["wait"] * 3)
    assert time.perf_counter() - begin >= 0.05
    env = replay_suite().make()
    env.reset(task)
    with pytest.raises(EnvError, match="no snapshots"):
        env.snapshot()


def test_fault_strikes_only_chosen_tasks() -> None:
    suite = crashing_suite(fault_every=2)
    crashed = []
    for task in suite.tasks("train")[:4]:
        try:
            play_actions(suite.make(), task, ["wait"] * 3)
        except RuntimeError:
            crashed.append(task.seed)
    assert crashed == [0, 2]


def test_recorded_episode_says_how_it_ended() -> None:
    suite = toy_suite()
    task = suite.tasks("train")[0]
    won = play_oracle(suite.make(), task)
    assert (won.stop, won.success, won.total_reward) == (StopReason.SUCCESS, True, 1.0)
    lost = play_actions(suite.make(), task, ["wait"])
    assert (lost.stop, lost.success) == (StopReason.MAX_TURNS, False)
