"""Levels are the same everywhere, solvable within the budget, and never shared between the splits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from turnpoint.envs import EnvDataError, env_registry
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.envs.sokoban.suite import SokobanSuite

from .brute import Plain

DIGEST = """
import hashlib
from turnpoint.envs.sokoban.settings import SokobanSettings
suite = SokobanSettings().build()
tasks = [*suite.tasks("train")[:60], *suite.tasks("valid")[:60]]
print(hashlib.sha256(repr([(t.id, t.type, t.seed, dict(t.data)) for t in tasks]).encode()).hexdigest())
"""


def test_another_process_draws_the_same_levels() -> None:
    suite = SokobanSettings().build()
    tasks = [*suite.tasks("train")[:60], *suite.tasks("valid")[:60]]
    here = hashlib.sha256(repr([(t.id, t.type, t.seed, dict(t.data)) for t in tasks]).encode()).hexdigest()
    for hash_seed in ("1", "77"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


def test_levels_are_solved_within_the_set_moves_and_named_by_them() -> None:
    for changes in (
        {},
        {"rows": 7, "columns": 5, "boxes": 1, "solution_moves": (5, 9), "inner_walls": (1, 4)},
    ):
        suite = SokobanSettings(**changes).build()
        least, most = suite.settings.solution_moves
        for task in suite.tasks("train")[:40]:
            rows = task.data["level"]
            plain = Plain(rows)
            moves = plain.moves(plain.start())
            assert moves is not None
            assert least <= moves <= most
            first, last = map(int, task.type.removeprefix("moves_").split("_"))
            assert first <= moves <= last
            inner = "".join(row[1:-1] for row in rows[1:-1])
            fewest, walls = suite.settings.inner_walls
            assert fewest <= inner.count("#") <= walls
            assert inner.count("X") == inner.count("O") + inner.count("S") == suite.settings.boxes


def test_splits_share_no_level_and_seeds_make_new_ones() -> None:
    tiny = {"rows": 5, "columns": 5, "boxes": 1, "inner_walls": (0, 1), "solution_moves": (1, 9)}
    suite = SokobanSettings(**tiny).build()
    train, valid = (
        {tuple(task.data["level"]) for task in suite.tasks(split)[:200]} for split in ("train", "valid")
    )
    assert not train & valid
    assert len(train) > 100
    other = SokobanSettings(**tiny, level_seed=1).build()
    assert [task.data for task in other.tasks("train")[:5]] != [
        task.data for task in suite.tasks("train")[:5]
    ]
    assert other.header()["sha256"] != suite.header()["sha256"]


def test_unusable_settings_say_what_to_change() -> None:
    for changes, reason in (
        ({"boxes": 9}, "do not fit"),
        ({"inner_walls": (0, 12)}, "do not fit"),
        ({"inner_walls": (4, 2)}, "inner_walls: 4 is more than 2"),
        ({"rows": 12, "columns": 12, "boxes": 4}, "states"),
        ({"max_turns": 3}, "at most 9"),
        ({"solution_moves": (3, 22)}, "at most 21"),
        ({"boxs": 1}, "did you mean 'boxes'"),
    ):
        with pytest.raises(ValidationError, match=reason):
            SokobanSettings(**changes)
    hopeless = SokobanSettings(rows=3, columns=5, boxes=1, inner_walls=(0, 0), solution_moves=(15, 15))
    with pytest.raises(EnvDataError, match="lower solution_moves"):
        hopeless.build()
    with pytest.raises(EnvDataError, match="train or valid"):
        SokobanSettings().build().tasks("test")


def test_it_is_registered() -> None:
    suite = env_registry.parse({"kind": "sokoban", "boxes": 1}).build()
    assert isinstance(suite, SokobanSuite)
    assert suite.settings.boxes == 1
