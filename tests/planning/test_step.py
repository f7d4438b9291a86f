from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.planning import GPUS, KNOWN, PARTS, Cluster, Efficiency, Workload, make_plan, step_time
from turnpoint.planning.memory import memory_need, tensor_parallel_for
from turnpoint.planning.step import decode_step

STUDENT = KNOWN["Qwen3-1.7B"]
HOUSE = Workload(turns=20, max_turns=30, history=5, recoveries=64, recovery_turns=2, replay_turns=10)


def on(gpus: int, **changes) -> Cluster:
    return replace(Cluster(GPUS["h100"], gpus, Efficiency()), **changes)


@given(st.floats(1, 49), st.integers(2, 50))
def test_the_survival_curve_has_the_mean_that_was_asked_for(turns: float, budget: int) -> None:
    work = Workload(turns=min(turns, budget), max_turns=budget)
    alive = [work.alive(t) for t in range(budget)]
    assert sum(alive) == pytest.approx(work.turns, rel=0.06)
    assert all(a >= b for a, b in itertools.pairwise(alive))


def test_token_counts_of_both_kinds_of_history() -> None:
    chat = Workload(turns=4, max_turns=4, opening_tokens=100, observation_tokens=10, response_tokens=5)
    assert [chat.prompt(t) for t in range(4)] == [100, 115, 130, 145]
    assert [chat.fresh(t) for t in range(4)] == [100, 10, 10, 10]
    assert chat.episode_tokens == 100 + 4 * 15
    window = chat.model_copy(update={"history": 2})
    assert [window.prompt(t) for t in range(4)] == [100, 115, 130, 130]
    assert window.episode_tokens == (100 + 115 + 130 + 130) + 4 * 5
    cut = chat.model_copy(update={"max_prompt_tokens": 120})
    assert [cut.prompt(t) for t in range(4)] == [100, 115, 120, 120]


def test_a_forward_pass_costs_two_operations_a_weight_and_token_beside_attention() -> None:
    assert STUDENT.forward_flops(10, 0) == 20 * STUDENT.parameters
    assert STUDENT.forward_flops(10, 100) - STUDENT.forward_flops(10, 0) == 10 * 4 * 28 * 2048 * 100
    assert STUDENT.kv_bytes == 2 * 2 * 28 * 8 * 128
    experts = KNOWN["Qwen3-30B-A3B"]
    assert (
        experts.weights_read(1)
        < experts.weights_read(4)
        < experts.weights_read(1000)
        == 2 * experts.parameters
    )


def test_decoding_is_bound_by_memory_and_then_by_computing() -> None:
    share, gpu = Efficiency(decode_seconds=0.0), GPUS["h100"]
    one = decode_step(STUDENT, on(1, efficiency=share), 1, 0)
    assert one == pytest.approx(2 * STUDENT.parameters / (gpu.bandwidth * 0.5))
    assert decode_step(STUDENT, on(1, efficiency=share), 8, 0) == pytest.approx(one)
    many = decode_step(STUDENT, on(1, efficiency=share), 4096, 0)
    assert many == pytest.approx(2 * STUDENT.parameters * 4096 / (gpu.flops * 0.25))
    assert decode_step(STUDENT, on(2, efficiency=share, tensor_parallel=2), 1, 0) == pytest.approx(one / 2)


def test_what_gets_faster_with_gpus_and_what_does_not() -> None:
    few, many = step_time(HOUSE, STUDENT, on(8)), step_time(HOUSE, STUDENT, on(64))
    assert many.seconds["driver"] == few.seconds["driver"] > 0
    assert many.seconds["environment"] == few.seconds["environment"]
    assert many.seconds["generation"] < few.seconds["generation"]
    assert many.seconds["update"] < few.seconds["update"]
    assert set(few.seconds) == set(PARTS)
    assert few.total == pytest.approx(sum(few.seconds.values()))
    scored = HOUSE.model_copy(update={"forward_passes": 1.0})
    ratio = (
        step_time(scored, STUDENT, on(8)).seconds["scoring"]
        / step_time(scored, STUDENT, on(64)).seconds["scoring"]
    )
    assert ratio == pytest.approx(8)


def test_recovery_replay_and_early_stop_are_where_the_papers_have_them() -> None:
    def total(**changes) -> float:
        return step_time(HOUSE.model_copy(update=changes), STUDENT, on(8)).total

    grpo, k1, k2, k3 = total(recoveries=0), total(recovery_turns=1), total(), total(recovery_turns=3)
    assert grpo < k1 < k2 < k3
    one = step_time(HOUSE.model_copy(update={"recovery_turns": 1}), STUDENT, on(8))
    assert one.seconds["replay"] == 0  # the first turn of a branch needs no environment
    assert step_time(HOUSE, STUDENT, on(8)).seconds["replay"] > 0
    assert step_time(HOUSE.model_copy(update={"replay_turns": 0}), STUDENT, on(8)).seconds["replay"] == 0
    assert total(turns=3, max_turns=3) < total() / 3
    assert total(restart_turns=6.0) > total()


def test_teachers_cost_what_they_read_or_wait_for() -> None:
    def teacher(**changes) -> float:
        work = HOUSE.model_copy(update={"recoveries": 0, "history": None} | changes)
        return step_time(work, STUDENT, on(8), KNOWN["Qwen3-32B"]).seconds["teacher"]

    assert teacher() == 0
    assert teacher(teacher_calls=40, teacher_seconds=3.0, teacher_concurrency=16) == 9.0
    assert 0 < teacher(teacher_calls=40, self_teacher=True) < 60
    assert teacher(scoring=True) < teacher(scoring=True, scoring_per_turn=True) / 3
    work = HOUSE.model_copy(update={"scoring": True})
    own = step_time(work, STUDENT, on(8, teacher_gpus=16), KNOWN["Qwen3-32B"]).seconds["teacher"]
    shared = step_time(work, STUDENT, on(8), KNOWN["Qwen3-32B"]).seconds["teacher"]
    assert own == pytest.approx(shared / 2, rel=0.05)


def test_workers_and_lockstep_bound_the_environment() -> None:
    work = HOUSE.model_copy(update={"env_seconds": 0.5})
    few = step_time(work, STUDENT, on(8, env_workers=16, lockstep=True)).seconds["environment"]
    many = step_time(work, STUDENT, on(8, env_workers=128, lockstep=True)).seconds["environment"]
    free = step_time(work, STUDENT, on(8, env_workers=16)).seconds["environment"]
    assert few > 5 * many
    assert free < few


def test_a_network_between_nodes_slows_the_trainer_of_large_models() -> None:
    large, work = KNOWN["Qwen3-32B"], Workload(tasks=2)
    inside, across = step_time(work, large, on(8)), step_time(work, large, on(16))
    assert across.notes["trainer's communication over its computing"] > 1
    assert across.seconds["update"] > inside.seconds["update"]
    assert across.seconds["weight sync"] > inside.seconds["weight sync"]


def test_episodes_beyond_the_concurrent_ones_come_in_waves() -> None:
    one = step_time(HOUSE.model_copy(update={"recoveries": 0}), STUDENT, on(8)).seconds["generation"]
    four = step_time(HOUSE.model_copy(update={"recoveries": 0, "concurrent": 32}), STUDENT, on(8)).seconds[
        "generation"
    ]
    assert 2 * one < four <= 4 * one


def test_memory_of_the_papers_students() -> None:
    assert memory_need(KNOWN["Qwen3-8B"], on(8), HOUSE).fits
    assert not memory_need(KNOWN["Qwen3-32B"], on(4), HOUSE).fits
    assert memory_need(KNOWN["Qwen3-32B"], on(64, tensor_parallel=4), HOUSE).fits
    assert tensor_parallel_for(KNOWN["Qwen3-8B"], 80e9, 8) == 1
    assert tensor_parallel_for(KNOWN["Qwen3-32B"], 80e9, 8) == 2


def test_a_plan_says_where_it_stops_scaling() -> None:
    plan = make_plan(HOUSE, STUDENT, on(8), sizes=(8, 64, 512))
    assert [size.cluster.gpus for size in plan.same_step] == [8, 64, 512]
    said = " ".join(plan.same_step[-1].said)
    assert "384 of 512 rollout servers have no episode" in said
    assert [size.work.tasks for size in plan.grown_step] == [16, 128, 1024]
    last = plan.grown_step[-1]
    assert last.time.largest == "driver"
    assert any(sentence.endswith("with GPUs") and "driver" in sentence for sentence in last.said)
    assert plan.grown_step[1].episodes_per_hour > plan.same_step[1].episodes_per_hour
    data = plan.to_dict()
    assert data["same_step"][0]["step_seconds"] == pytest.approx(plan.same_step[0].time.total)
    assert all(math.isfinite(value) for size in data["same_step"] for value in size["seconds"].values())


@pytest.mark.parametrize(
    ("work", "cluster", "said"),
    [
        (
            HOUSE.model_copy(update={"env_seconds": 5.0}),
            on(8, env_workers=16),
            "raise rollout.env_worker_count",
        ),
        (
            HOUSE.model_copy(update={"env_seconds": 9.0, "recoveries": 0}),
            on(8, lockstep=True),
            "rollout.lockstep=false",
        ),
        (
            HOUSE.model_copy(update={"teacher_calls": 500, "teacher_seconds": 30}),
            on(8),
            "raise teacher.concurrency",
        ),
        (HOUSE.model_copy(update={"scoring": True, "scoring_per_turn": True}), on(8), "teacher_gpus"),
        (HOUSE.model_copy(update={"replay_turns": 1500}), on(8), "method.recovery_turns=1"),
        (HOUSE.model_copy(update={"forward_passes": 8}), on(8), "policy.loss.kl=0"),
    ],
)
def test_each_bottleneck_is_named_with_its_way_out(work: Workload, cluster: Cluster, said: str) -> None:
    (size, *_) = make_plan(work, STUDENT, cluster, teacher=KNOWN["Qwen3-32B"], sizes=()).same_step
    assert any(said in sentence for sentence in size.said), size.said


def test_what_does_not_fit_is_said_first() -> None:
    (size, *_) = make_plan(HOUSE, KNOWN["Qwen3-32B"], on(4), sizes=()).same_step
    assert size.said[0].startswith("does not fit: training needs")
