"""Lazy tasks of two splits that share no board."""

from __future__ import annotations

import pytest

from turnpoint.envs.seeded import VALID_SEED, SeededTasks, seed_of, split_of
from turnpoint.records import Task


def test_tasks_are_drawn_when_asked_for_and_once() -> None:
    drawn: list[tuple[str, int]] = []

    def draw(split: str, number: int) -> Task:
        drawn.append((split, number))
        return Task(f"{split}-{number}", "toy")

    tasks = SeededTasks("train", 5, draw)
    assert (len(tasks), drawn) == (5, [])
    assert [task.id for task in tasks[1:3]] == ["train-1", "train-2"]
    assert tasks[-1].id == "train-4"
    assert tasks[1] is tasks[1]
    assert drawn == [("train", 1), ("train", 2), ("train", 4)]
    assert [task.id for task in tasks] == [f"train-{i}" for i in range(5)]
    with pytest.raises(IndexError):
        tasks[5]


def test_every_board_belongs_to_one_split_and_seeds_do_not_overlap() -> None:
    splits = [split_of(f"board {number}") for number in range(2000)]
    assert 300 < splits.count("valid") < 500
    assert set(splits) == {"train", "valid"}
    assert splits == [split_of(f"board {number}") for number in range(2000)]
    assert (seed_of("train", 3), seed_of("valid", 3)) == (3, VALID_SEED + 3)
