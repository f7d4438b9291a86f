"""Rewards, endings, oracle and snapshots on hand-made levels, and the contract on drawn ones."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs import EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.sokoban.env import SokobanEnv
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.suite import SokobanSuite
from turnpoint.records import Task

CORRIDOR = ["PX_O"]
"""Push right twice."""
ROOM = ["______", "_OX___", "_P____", "____XO"]
"""One box beside each target; the player stands below the first target."""


def start(rows: list[str], **changes: Any) -> SokobanEnv:
    env = SokobanSuite(SokobanSettings(**changes)).make()
    env.reset(Task("mine", "sokoban", data={"level": rows}))
    return env


def play(env: SokobanEnv, *actions: str) -> list[tuple[float, bool, bool | None, bool]]:
    steps = [env.step(action) for action in actions]
    return [
        (pytest.approx(step.reward, abs=1e-12), step.done, step.success, step.effective) for step in steps
    ]


def test_a_push_onto_the_target_finishes() -> None:
    env = start(CORRIDOR)
    assert env.distance() == 1
    assert env.best_actions() == ["right, right"]
    assert play(env, "right, right") == [(-0.2 + 1 + 10, True, True, True)]
    assert (env.distance(), env.best_actions()) == (0, [])


def test_moves_after_the_end_are_neither_made_nor_paid() -> None:
    env = start(CORRIDOR)
    assert play(env, "right, right, left") == [(10.8, True, True, True)]
    assert play(env, "left") == [(0, True, True, False)]


def test_blocked_moves_cost_but_do_nothing() -> None:
    env = start(CORRIDOR)
    before = env.snapshot().state
    assert play(env, "up", "left, down") == [(-0.1, False, None, False), (-0.2, False, None, False)]
    assert env.snapshot().state == before._replace(used=3)
    assert play(env, "up, right, down") == [(-0.3, False, None, True)]
    assert env.snapshot().said == "You moved right. Blocked: up, down."


def test_boxes_on_and_off_targets_are_paid_once_each() -> None:
    env = start(ROOM)
    # Around the first box to its right side, then push it left: on, and one further: off again.
    assert play(env, "right, right, up") == [(-0.3, False, None, True)]
    assert play(env, "left") == [(-0.1 + 1, False, None, True)]
    assert play(env, "left") == [(-0.1 - 1, True, False, True)]  # it is stuck at the edge now


def test_on_and_off_in_one_turn_have_their_own_rewards() -> None:
    env = start(ROOM, on_target_reward=2.0, off_target_reward=-5.0, end_when_unsolvable=False)
    play(env, "right, right, up")
    assert play(env, "left, left") == [(-0.2 + 2 - 5, False, None, True)]


def test_a_push_from_target_to_target_changes_no_reward() -> None:
    env = start(["_____", "P*OX_", "_____"], moves_per_turn=1, max_turns=30, end_when_unsolvable=False)
    assert play(env, "right") == [(-0.1, False, None, True)]


def test_a_dead_state_ends_the_episode() -> None:
    env = start(["____", "_PX_", "_O__"])
    step = env.step("right, up")
    assert (step.done, step.success, step.reward) == (True, False, pytest.approx(-0.1))
    assert step.observation.text.startswith("You moved right. The level can no longer be solved.")
    assert step.observation.admissible == ()
    assert (env.distance(), env.best_actions()) == (None, [])


def test_a_dead_state_can_be_played_on() -> None:
    env = start(["____", "_PX_", "_O__"], end_when_unsolvable=False)
    step = env.step("right, up")
    assert (step.done, step.success, env.distance(), env.best_actions()) == (False, None, None, [])
    assert step.observation.admissible


def test_the_move_budget_ends_the_episode() -> None:
    env = start(["PX___O"], move_budget=6, max_turns=7, solution_moves=(3, 6))
    assert env.distance() == 2
    assert "Moves left: 6." in env.restore(env.snapshot()).text
    first = env.step("up, up")
    assert (first.done, env.distance()) == (False, 2)
    second = env.step("up")  # 4 moves are needed and 3 are left
    assert (second.done, second.success, env.distance()) == (True, False, None)
    env = start(["PX___O"], move_budget=6, solution_moves=(3, 6), end_when_unsolvable=False)
    assert [env.step("up, up, up").done for _ in range(2)] == [False, True]
    assert env.snapshot().said == "Blocked: up, up, up. No moves are left."


def test_distance_and_key_know_the_budget_only_where_it_can_run_out() -> None:
    free, tight = start(ROOM), start(ROOM, move_budget=20)
    keys = []
    for env in (free, tight):
        before = env.restore(env.snapshot())
        after = env.step("right, left").observation
        keys.append(before.state_key == after.state_key)
    assert keys == [True, False]


@pytest.mark.parametrize(
    "action", ["", "jump", "up,", "up, up, up, up", "up; down", "upp", "up up", "up,,up"]
)
def test_other_texts_are_answered_and_do_nothing(action: str) -> None:
    env = start(ROOM)
    before = env.snapshot().state
    step = env.step(action)
    assert (step.reward, step.done, step.effective) == (0.0, False, False)
    assert step.observation.text.startswith("Not understood. Give 1 to 3 of: up, down, left, right.")
    assert env.snapshot().state == before


@pytest.mark.parametrize("action", ["Right,Right,UP", " right ,right , up\n", "RIGHT, right, Up"])
def test_case_and_spacing_do_not_matter(action: str) -> None:
    env = start(ROOM)
    env.step(action)
    assert env.snapshot().said == "You moved right, right, up."


def test_the_grid_shows_every_sign() -> None:
    rows = ["#######", "#_OX__#", "#*SX__#", "#_____#", "#######"]
    env = start(rows)
    grid = ["# # # # # # #", "# _ O X _ _ #", "# √ S X _ _ #", "# _ _ _ _ _ #", "# # # # # # #"]
    assert env.restore(env.snapshot()).text.splitlines() == ["The level begins.", *grid]
    env = start(rows, ascii=True, coordinates=True)
    lines = env.restore(env.snapshot()).text.splitlines()
    assert lines[3] == "# * S X _ _ #"
    assert lines[6:] == ["Player 3 3. Boxes 2 4, 3 2, 3 4. Targets 2 3, 3 2, 3 3."]


def test_tasks_without_a_playable_level_are_refused() -> None:
    env = SokobanSuite(SokobanSettings()).make()
    for data, reason in (
        ({}, "no level"),
        ({"level": [1, 2]}, "no level"),
        ({"level": ["PX?O"]}, "means nothing"),
        ({"level": ["XPO", "___"]}, "no solution"),
    ):
        with pytest.raises(EnvError, match=reason):
            env.reset(Task("mine", "sokoban", data=data))
    with pytest.raises(EnvError, match="reset"):
        env.step("up")
    with pytest.raises(EnvError, match="not a snapshot"):
        env.restore((1, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"moves_per_turn": 1, "max_turns": 20, "ascii": True, "coordinates": True},
        {"move_budget": 17, "end_when_unsolvable": False},
        {"rows": 5, "columns": 7, "boxes": 1, "inner_walls": (0, 3)},
    ],
)
def test_the_contract_is_kept(changes: dict[str, Any]) -> None:
    report = check_env(SokobanSettings(**changes).build(), quick=True, tasks=2)
    assert report.ok, report.failures
    assert not any(check.skipped for check in report.checks)


def test_the_oracle_wins_every_level_within_the_turns() -> None:
    suite = SokobanSettings().build()
    env = suite.make()
    for split in ("train", "valid"):
        for task in suite.tasks(split)[:100]:
            env.reset(task)
            length = env.distance()
            assert length is not None
            assert 0 < length <= suite.max_turns
            steps = [env.step(env.best_actions("observed")[0]) for _ in range(length)]
            assert [step.done for step in steps] == [False] * (length - 1) + [True]
            assert steps[-1].success


@given(number=st.integers(0, 60), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_listed_actions_are_exactly_those_made_in_full(number: int, seed: int) -> None:
    suite = drawn()
    env, rng = suite.make(), random.Random(seed)
    observation = env.reset(suite.tasks("train")[number])
    for _ in range(rng.randrange(4)):
        if observation.admissible:
            observation = env.step(rng.choice(observation.admissible)).observation
    here, moves = env.snapshot(), ["up", "down", "left", "right"]
    for _ in range(30):
        action = ", ".join(rng.choice(moves) for _ in range(rng.randint(1, 3)))
        env.restore(here)
        if here.state.over:
            assert not env.step(action).effective
            continue
        env.step(action)
        made = re.match(r"You moved ([^.]*)\.", env.snapshot().said)
        assert (action in (observation.admissible or ())) == (made is not None and made[1] == action)


@cache
def drawn() -> SokobanSuite:
    return SokobanSettings().build()
