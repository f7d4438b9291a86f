"""Boards are the same everywhere, winnable within the turns, and never shared between the splits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from turnpoint.envs import EnvDataError, env_registry
from turnpoint.envs.minesweeper.settings import MinesweeperSettings
from turnpoint.envs.minesweeper.suite import MinesweeperSuite

from .brute import Plain

DIGEST = """
import hashlib
from turnpoint.envs.minesweeper.settings import MinesweeperSettings
suite = MinesweeperSettings().build()
tasks = [*suite.tasks("train")[:100], *suite.tasks("valid")[:100]]
print(hashlib.sha256(repr([(t.id, t.type, t.seed, dict(t.data)) for t in tasks]).encode()).hexdigest())
"""


def test_another_process_draws_the_same_boards() -> None:
    suite = MinesweeperSettings().build()
    tasks = [*suite.tasks("train")[:100], *suite.tasks("valid")[:100]]
    here = hashlib.sha256(repr([(t.id, t.type, t.seed, dict(t.data)) for t in tasks]).encode()).hexdigest()
    for hash_seed in ("1", "77"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


def test_boards_need_the_set_number_of_opens_and_are_named_by_it() -> None:
    suite = MinesweeperSettings(rows=4, columns=5, opens=(2, 3)).build()
    for task in suite.tasks("train")[:40]:
        data = task.data
        plain = Plain(4, 5, {(row - 1, column - 1) for row, column in data["mines"]})
        assert len(plain.mines) == 3
        row, column = data["first"]
        needed = plain.opens_needed(plain.open(frozenset(), (row - 1, column - 1)))
        assert 2 <= needed <= 3
        first, last = map(int, task.type.removeprefix("opens_").split("_"))
        assert first <= needed <= last


def test_guess_free_boards_are_won_without_risk() -> None:
    suite = MinesweeperSettings(guess_free=True).build()
    env = suite.make()
    for task in suite.tasks("train")[:60]:
        env.reset(task)
        for _ in range(suite.max_turns):
            action = env.best_actions("observed")[0]
            assert env.mine_probabilities()[action] == 0
            step = env.step(action)
            if step.done:
                break
        assert step.success


def test_splits_share_no_board_and_seeds_make_new_ones() -> None:
    tiny = {"rows": 4, "columns": 4, "mines": 2, "opens": (1, 7)}
    suite = MinesweeperSettings(**tiny).build()
    train, valid = (
        {repr(dict(task.data)) for task in suite.tasks(split)[:200]} for split in ("train", "valid")
    )
    assert not train & valid
    assert len(train) > 100
    other = MinesweeperSettings(**tiny, board_seed=1).build()
    assert [task.data for task in other.tasks("train")[:5]] != [
        task.data for task in suite.tasks("train")[:5]
    ]
    assert other.header()["sha256"] != suite.header()["sha256"]


def test_unusable_settings_say_what_to_change() -> None:
    for changes, reason in (
        ({"mines": 35}, "at most 34"),
        ({"rows": 16, "columns": 16, "mines": 10}, "set a smaller field"),
        ({"opens": (5, 4)}, "5 is more than 4"),
        ({"opens": (2, 8)}, "raise max_turns"),
        ({"mine": 3}, "did you mean 'mines'"),
    ):
        with pytest.raises(ValidationError, match=reason):
            MinesweeperSettings(**changes)
    with pytest.raises(EnvDataError, match="widen opens"):
        MinesweeperSettings(rows=2, columns=2, mines=1, opens=(5, 7)).build()
    with pytest.raises(EnvDataError, match="train or valid"):
        MinesweeperSettings().build().tasks("test")


def test_it_is_registered() -> None:
    suite = env_registry.parse({"kind": "minesweeper", "mines": 2}).build()
    assert isinstance(suite, MinesweeperSuite)
    assert suite.settings.mines == 2
