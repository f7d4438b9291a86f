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
def test_no_task_comes_twice_in_an_epoch(count: int, per_step: int, seed: int) -> None:
    if per_step > count:
        with pytest.raises(ValueError, match="tasks_per_step"):
            sampler(count, per_step)
        return
    made = sampler(count, per_step, seed)
    epoch = [task.id for step in range(count // per_step) for task in made.step(step)]
    assert len(epoch) == len(set(epoch)) == per_step * (count // per_step)


def test_any_step_can_be_asked_first() -> None:
    forward = sampler(20, 6)
    steps = [[t.id for t in forward.step(i)] for i in range(8)]
    assert [[t.id for t in sampler(20, 6).step(i)] for i in reversed(range(8))] == steps[::-1]
    assert steps[:3] != steps[3:6]
    assert [[t.id for t in sampler(20, 6, seed=1).step(i)] for i in range(8)] != steps
