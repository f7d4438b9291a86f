"""Rewards, endings and oracles on hand-made boards, and the contract on drawn ones."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs import EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.minesweeper.env import MinesweeperEnv
from turnpoint.envs.minesweeper.settings import MinesweeperSettings
from turnpoint.envs.minesweeper.suite import MinesweeperSuite
from turnpoint.prompts import resolve_action
from turnpoint.records import Task

from .brute import Plain

# Numbers of the board below; the mines are at (1, 3), (4, 1) and (4, 4):
#   0 1 * 1
#   0 1 1 1
#   1 1 1 1
#   * 1 1 *
MINES = [[1, 3], [4, 1], [4, 4]]


def start(mines: list[list[int]] = MINES, first: tuple[int, int] = (1, 2), **changes: Any) -> MinesweeperEnv:
    env = MinesweeperSuite(MinesweeperSettings(**changes)).make()
    env.reset(board(mines, first))
    return env


def board(mines: list[list[int]], first: tuple[int, int], rows: int = 4, columns: int = 4) -> Task:
    data = {"rows": rows, "columns": columns, "mines": mines, "first": list(first)}
    return Task("mine", "minesweeper", data=data)


def play(env: MinesweeperEnv, *actions: str) -> list[tuple[float, bool, bool | None, bool]]:
    steps = [env.step(action) for action in actions]
    return [(step.reward, step.done, step.success, step.effective) for step in steps]


def test_every_outcome_has_its_reward() -> None:
    env = start()
    assert play(env, "(2, 3)") == [(0.5, False, None, True)]
    assert play(env, "(2, 3)", "(1, 2)", "(5, 1)", "(0, 2)") == [(-1.0, False, None, False)] * 4
    assert play(env, "(1, 1)") == [(2.0, False, None, True)]
    assert env.snapshot().said == "You opened (1, 1). New cells: 5."
    assert play(env, "(4, 4)") == [(-0.1, True, False, True)]
    assert (env.distance(), env.best_actions(), env.best_actions("observed")) == (None, [], [])
    assert env.mine_probabilities() == {}
    assert play(env, "(1, 4)") == [(0.0, True, False, False)]


def test_the_last_safe_cell_wins() -> None:
    env = start()
    cells = ["(1, 4)", "(2, 3)", "(2, 4)", "(3, 3)", "(3, 4)", "(4, 2)", "(4, 3)"]
    assert env.distance() == len(cells) + 1
    assert play(env, *cells) == [(0.5, False, None, True)] * len(cells)
    assert env.distance() == 1
    assert play(env, "(1, 1)") == [(10.0, True, True, True)]
    assert env.snapshot().said == "You opened (1, 1). New cells: 5. All safe cells are open."
    assert (env.distance(), env.best_actions(), env.best_actions("observed")) == (0, [], [])


def test_full_knowledge_names_what_brings_the_end_nearer() -> None:
    env = start()
    best = env.best_actions("full")
    assert best[:2] == ["(1, 1)", "(2, 1)"]  # the cells that show most come first
    # Opening the border of an empty area is safe but needs no turn: the area shows it anyway.
    assert "(2, 2)" not in best
    assert set(best[2:]) == {"(1, 4)", "(2, 3)", "(2, 4)", "(3, 3)", "(3, 4)", "(4, 2)", "(4, 3)"}


def test_an_observer_takes_all_safe_cells_or_the_least_risk() -> None:
    env = start()
    env.step("(1, 1)")
    safe = {action for action, chance in env.mine_probabilities().items() if chance == 0}
    assert safe
    assert set(env.best_actions("observed")) == safe
    # A lone 1 in the corner says nothing about which neighbour is mined: far cells are less risky.
    lone = start([[1, 2]], (1, 1))
    chances = lone.mine_probabilities()
    assert chances == {
        action: (1 / 3 if action in ("(1, 2)", "(2, 1)", "(2, 2)") else 0) for action in chances
    }
    # With two mines elsewhere no cell is safe.
    risky = start([[1, 2], [4, 4]], (1, 1))
    chances = risky.mine_probabilities()
    assert min(chances.values()) == pytest.approx(1 / 12)
    assert set(risky.best_actions("observed")) == {a for a, chance in chances.items() if chance < 0.1}


def test_probabilities_sum_to_the_number_of_mines() -> None:
    suite = drawn()
    env = suite.make()
    for task in suite.tasks("valid")[:40]:
        env.reset(task)
        assert sum(env.mine_probabilities().values()) == pytest.approx(3, abs=1e-12)


@given(number=st.integers(0, 80), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_an_observer_knows_nothing_hidden(number: int, seed: int) -> None:
    """On every board that shows the same numbers, an observer does the same."""
    suite, rng = drawn(), random.Random(seed)
    env, task = suite.make(), suite.tasks("train")[number]
    observation, played = env.reset(task), []
    for _ in range(rng.randrange(3)):
        played.append(rng.choice(env.best_actions("full")))
        step = env.step(played[-1])
        if step.done:
            return
        observation = step.observation
    plain = Plain(6, 6, {(row - 1, column - 1) for row, column in task.data["mines"]})
    lines = observation.text.splitlines()[2:]
    opened = frozenset((r, c) for r in range(6) for c in range(6) if lines[r].split()[c + 1] != "?")
    others = plain.consistent(opened)
    for mines in rng.sample(others, min(3, len(others))):
        other = suite.make()
        places = [[row + 1, column + 1] for row, column in sorted(mines)]
        seen = other.reset(Task("other", "minesweeper", data={**task.data, "mines": places}))
        for action in played:
            seen = other.step(action).observation
        assert seen.text.splitlines()[2:] == lines
        assert other.best_actions("observed") == env.best_actions("observed")
        assert other.mine_probabilities() == env.mine_probabilities()
        assert seen.state_key == observation.state_key


@pytest.mark.parametrize(
    "action", ["", "open", "(1)", "(1, 2, 3)", "(a, b)", "1.5, 2", "(1, 2) and (3, 4)", "-1, 2"]
)
def test_other_texts_are_answered_and_do_nothing(action: str) -> None:
    env = start()
    before = env.snapshot().state
    step = env.step(action)
    assert (step.reward, step.done, step.effective) == (0.0, False, False)
    assert step.observation.text.startswith("Not understood.")
    assert env.snapshot().state == before


@pytest.mark.parametrize("action", ["(2, 3)", "2 3", "(2,3)", " 2, 3\n", "open (2, 3)", "( 2, 3 )", "[2, 3]"])
def test_places_may_be_spelt_in_several_ways(action: str) -> None:
    env = start()
    assert env.step(action).effective
    assert env.snapshot().said == "You opened (2, 3). New cells: 1."


def test_the_field_is_shown_word_by_word() -> None:
    env = start()
    env.step("(1, 1)")
    text = env.step("(4, 4)").observation.text
    assert text.splitlines() == [
        "You opened (4, 4). It is a mine, the game is lost.",
        "  1 2 3 4",
        "1 0 1 ? ?",
        "2 0 1 ? ?",
        "3 1 1 ? ?",
        "4 ? ? ? *",
    ]
    env = start(labels=False, brackets=False)
    text = env.restore(env.snapshot()).text
    assert text.splitlines() == ["You opened 1 2. New cells: 1.", "? 1 ? ?", *["? ? ? ?"] * 3]
    assert env.best_actions("full")[0] == "1 1"


@pytest.mark.parametrize("brackets", [True, False])
def test_every_action_resolves_to_itself(brackets: bool) -> None:
    env = start(brackets=brackets)
    admissible = env.restore(env.snapshot()).admissible
    assert admissible is not None
    assert len(admissible) == 15
    assert all(resolve_action(action, admissible).action == action for action in admissible)


def test_tasks_without_a_playable_board_are_refused() -> None:
    env = MinesweeperSettings().build().make()
    for task, reason in (
        (Task("x", "minesweeper"), "not a Minesweeper task"),
        (board([[9, 9]], (1, 1)), "outside of 4 x 4"),
        (board([[1, 1]], (1, 1)), "first cell is mined"),
        (board([], (1, 1)), "no mine"),
        (board([[r, c] for r in range(1, 4) for c in range(1, 7)], (9, 9), 9, 9), "more than"),
        (board([[1, 1]], (4, 4)), "wins the game"),
    ):
        with pytest.raises(EnvError, match=reason):
            env.reset(task)
    with pytest.raises(EnvError, match="reset"):
        env.step("(1, 1)")
    with pytest.raises(EnvError, match="not a snapshot"):
        env.restore("somewhere")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"labels": False, "brackets": False, "guess_free": True},
        {"rows": 4, "columns": 11, "mines": 3, "opens": (1, 9), "max_turns": 12},
    ],
)
def test_the_contract_is_kept(changes: dict[str, Any]) -> None:
    report = check_env(MinesweeperSettings(**changes).build(), quick=True, tasks=2)
    assert report.ok, report.failures
    assert not any(check.skipped for check in report.checks)


def test_full_knowledge_wins_every_board_within_the_turns() -> None:
    suite = drawn()
    env = suite.make()
    for split in ("train", "valid"):
        for task in suite.tasks(split)[:150]:
            env.reset(task)
            length = env.distance()
            assert length is not None
            assert 0 < length <= suite.max_turns
            steps = [env.step(env.best_actions("full")[0]) for _ in range(length)]
            assert [step.done for step in steps] == [False] * (length - 1) + [True]
            assert steps[-1].success


def test_careful_play_wins_unless_a_guess_is_lost() -> None:
    suite = drawn()
    env, wins, tasks = suite.make(), 0, suite.tasks("train")[:200]
    for task in tasks:
        env.reset(task)
        for _ in range(36):
            action = env.best_actions("observed")[0]
            risk = env.mine_probabilities()[action]
            step = env.step(action)
            if step.done:
                break
        assert step.success or risk > 0
        wins += bool(step.success)
    assert wins > 0.9 * len(tasks)


@cache
def drawn() -> MinesweeperSuite:
    return MinesweeperSettings().build()
