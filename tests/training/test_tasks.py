from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.records import Task
from turnpoint.rollouts import Streams
from turnpoint.training.tasks import TaskSampler


def sampler(count: int, per_step: int, seed: int = 0) -> TaskSampler:
    return TaskSampler([Task(str(i), "toy") for i in range(count)], per_step, Streams(seed))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 5))
def test_every_epoch_holds_every_task_once_and_no_step_holds_one_twice(
    count: int, per_step: int, seed: int
) -> None:
    if per_step > count:
        with pytest.raises(ValueError, match="tasks_per_step"):
            sampler(count, per_step)
        return
    made = sampler(count, per_step, seed)
    steps = [[task.id for task in made.step(step)] for step in range(4 * count // per_step)]
    assert all(len(step) == len(set(step)) == per_step for step in steps)
    walked = [task for step in steps for task in step]
    for epoch in range(len(walked) // count):
        assert len(set(walked[epoch * count : (epoch + 1) * count])) == count


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 60), st.integers(0, 60))
def test_a_step_does_not_depend_on_what_was_asked_before(
    count: int, per_step: int, step: int, other: int
) -> None:
    per_step = min(count, per_step)
    alone = sampler(count, per_step).step(step)
    made = sampler(count, per_step)
    made.step(other)
    assert made.step(step) == alone
    walked = sampler(count, per_step)
    assert [walked.step(i) for i in range(step + 1)][-1] == alone


def test_a_late_step_of_many_tasks_needs_few_permutations() -> None:
    made, drawn = sampler(10_007, 128), []
    permutation = made._permutation
    made._permutation = lambda epoch: drawn.append(epoch) or permutation(epoch)
    made.step(1_000_003)
    made.step(1_000_004)
    assert len(drawn) <= 4


def test_seeds_give_other_orders() -> None:
    steps = [[t.id for t in sampler(20, 6).step(i)] for i in range(8)]
    assert steps[:3] != steps[3:6]
    assert [[t.id for t in sampler(20, 6, seed=1).step(i)] for i in range(8)] != steps
