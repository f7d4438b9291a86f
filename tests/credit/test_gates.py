"""RLSD, SDAR, SOD, AgentOPSD and PivotRL: worked numbers, sign and reductions."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import (
    agentopsd_advantages,
    agentopsd_multipliers,
    group_advantages,
    pivotrl_keep,
    rlsd_advantages,
    rlsd_weights,
    sdar_advantages,
    sdar_gate,
    sod_step_weights,
)

from . import reference as slow

STUDENT, TEACHER = [-0.5, -0.4, -1], [-0.3, -2, -0.95]

pairs = st.lists(st.tuples(st.floats(-1e4, 0), st.floats(-1e4, 0)), min_size=1, max_size=10)


@pytest.mark.parametrize(
    ("advantage", "expected"), [(1, [1.1, 0.9, 1.025636]), (-1, [-0.909365, -1.1, -0.975615])]
)
def test_rlsd(advantage: float, expected: list[float]) -> None:
    np.testing.assert_allclose(rlsd_advantages(advantage, TEACHER, STUDENT), expected, atol=1e-6)


def test_sdar() -> None:
    gate = sdar_gate([-0.3, -2.0], [-0.5, -0.4], beta=5)
    np.testing.assert_allclose(gate, [0.731059, 0.000335], atol=1e-6)
    np.testing.assert_array_equal(sdar_advantages(0.5, [-0.3, -2.0], [-0.5, -0.4]), 0.5 + 0.01 * gate)


def test_sdar_always_raises_the_sampled_token() -> None:
    assert (sdar_advantages(0.0, [-900.0, -2, -1], [0.0, -2, -900]) >= 0).all()
    np.testing.assert_array_equal(sdar_gate([-900.0, -2, -1], [0.0, -2, -900]), [0, 0.5, 1])


def test_sod_carries_the_uncapped_product() -> None:
    np.testing.assert_allclose(sod_step_weights([0.2, 0.4, 0.1, 0.4]), [1, 0.5, 1.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(sod_step_weights([0.0, 0.0]), [1, 1])
    assert sod_step_weights([]).shape == (0,)


def test_agentopsd() -> None:
    result = agentopsd_advantages(1, [0.5, -1, 0.2])
    np.testing.assert_allclose(result, [1.092871, 0.9, 1.045928], atol=1e-6)
    np.testing.assert_allclose(agentopsd_multipliers(1, [0.5, -1, 0.2]), 2 * result - 1)


def test_agentopsd_without_variation_is_the_plain_advantage() -> None:
    np.testing.assert_array_equal(agentopsd_advantages(0.35, [0.0, 0.0, 0.0]), [0.35] * 3)
    np.testing.assert_array_equal(agentopsd_advantages(-0.35, [0.7]), [-0.35])
    assert agentopsd_advantages(1, []).shape == (0,)


def test_agentopsd_prior_shifts_the_value() -> None:
    low = agentopsd_multipliers(1.0, [1.0, 1.0, 1.0], prior=0.05)
    high = agentopsd_multipliers(1.0, [1.0, 1.0, 1.0], prior=0.95)
    assert low[0] < low[-1]
    assert high[0] > high[-1]


def test_pivotrl_filter() -> None:
    assert pivotrl_keep([1, 0, 0, 0], 0.6)
    assert not pivotrl_keep([1, 1, 1, 0], 0.6)
    assert not pivotrl_keep([0, 0, 0, 0], 0.6)
    assert not pivotrl_keep([0.3, 0.1 + 0.2], 0.6)
    assert not pivotrl_keep([0.5, 0.7], 0.6)


def test_zero_coefficients_are_grpo_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    for advantage in group_advantages(rng.normal(size=50), [0] * 50, normalise="mean_std"):
        teacher, student = -rng.exponential(size=(2, 7))
        plain = np.full(7, advantage)
        np.testing.assert_array_equal(sdar_advantages(advantage, teacher, student, coef=0), plain)
        np.testing.assert_array_equal(rlsd_advantages(advantage, teacher, student, mix=0), plain)
        np.testing.assert_array_equal(agentopsd_advantages(advantage, teacher - student, mix=0), plain)


@given(st.lists(st.floats(-1e4, 0), min_size=1, max_size=10), st.floats(-5, 5), st.floats(0, 1))
def test_a_teacher_that_equals_the_student_changes_no_weight(
    logprobs: list[float], advantage: float, mix: float
) -> None:
    plain = np.full(len(logprobs), advantage)
    np.testing.assert_array_equal(rlsd_weights(advantage, logprobs, logprobs), np.ones(len(logprobs)))
    np.testing.assert_array_equal(rlsd_advantages(advantage, logprobs, logprobs, mix=mix), plain)
    zeros = np.zeros(len(logprobs))
    np.testing.assert_array_equal(agentopsd_advantages(advantage, zeros, mix=mix), plain)


@given(pairs, st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_the_reward_decides_the_sign(
    rows: list[tuple[float, float]], advantage: float, mix: float, clip: float
) -> None:
    teacher, student = np.array(rows).T
    rlsd = rlsd_advantages(advantage, teacher, student, mix=mix, clip=clip)
    turns = agentopsd_advantages(advantage, teacher - student, mix=mix, clip=clip, scale=3.0)
    for result in (rlsd, turns):
        assert (result * np.sign(advantage) >= 0).all()
        low, high = 1 - mix * clip, 1 + mix * clip
        assert (np.abs(result) <= high * abs(advantage) * (1 + 1e-12)).all()
        assert (np.abs(result) >= low * abs(advantage) * (1 - 1e-12)).all()


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(10):
        size = int(rng.integers(1, 8))
        teacher, student = -3 * rng.exponential(size=(2, size))
        a = float(rng.choice([0.0, rng.normal()]))
        mix, clip, beta = rng.random(), rng.random(), rng.exponential() + 0.1
        gaps = [t - s for t, s in zip(teacher, student, strict=True)]
        weights = [slow.clipped(math.exp(slow.sign(a) * d), 1 - clip, 1 + clip) for d in gaps]
        np.testing.assert_allclose(rlsd_weights(a, teacher, student, clip=clip), weights)
        np.testing.assert_allclose(
            rlsd_advantages(a, teacher, student, clip=clip, mix=mix),
            [a * ((1 - mix) + mix * w) for w in weights],
        )
        gate = [slow.sigmoid(beta * d) for d in gaps]
        np.testing.assert_allclose(sdar_gate(teacher, student, beta=beta), gate, atol=1e-14)
        np.testing.assert_allclose(
            sdar_advantages(a, teacher, student, coef=mix, beta=beta), [a + mix * g for g in gate], atol=1e-14
        )
        np.testing.assert_allclose(
            agentopsd_advantages(a, gaps, mix=mix, clip=clip, scale=0.3),
            slow.agentopsd(a, gaps, mix, 0.3, clip),
            atol=1e-9,
        )
        if a:
            np.testing.assert_allclose(
                agentopsd_multipliers(a, gaps, clip=clip, scale=0.3),
                [v / a for v in slow.agentopsd(a, gaps, 1.0, 0.3, clip)],
                atol=1e-9,
            )
        divergences = [abs(d) for d in gaps]
        product, steps = 1.0, [1.0]
        for before, after in itertools.pairwise(divergences):
            product *= (before + 1e-8) / (after + 1e-8)
            steps.append(min(product, 1.5))
        np.testing.assert_allclose(sod_step_weights(divergences), steps)
        rewards = rng.choice([0.0, 1.0], size=size + 1).tolist()
        expected = statistics.variance(rewards) > 0 and statistics.fmean(rewards) < mix
        assert pivotrl_keep(rewards, mix) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rlsd_advantages(1, [0], [0, 0]), "teacher has length 1 but student has length 2"),
        (lambda: rlsd_advantages([1, 1], [0], [0]), "advantage has length 2 but the row has 1"),
        (lambda: rlsd_advantages(1, [0], [0], mix=1.5), "mix is 1.5"),
        (lambda: rlsd_weights(1, [0], [0], clip=-0.1), "clip is -0.1"),
        (lambda: rlsd_weights(1, [np.nan], [0]), r"teacher\[0\] is nan"),
        (lambda: sdar_gate([0], [0], beta=0), "beta is 0.0"),
        (lambda: sdar_advantages(1, [0], [0], coef=np.inf), "coef is inf"),
        (lambda: sod_step_weights([0.1, -0.1]), r"divergences\[1\] is -0.1"),
        (lambda: sod_step_weights([0.1], cap=0.5), "cap is 0.5"),
        (lambda: sod_step_weights([0.1], epsilon=0), "epsilon is 0.0"),
        (lambda: agentopsd_multipliers(1, [0.1], prior=1), "prior is 1; set a probability strictly"),
        (lambda: agentopsd_multipliers(1, [0.1], scale=-1), "scale is -1.0"),
        (lambda: agentopsd_multipliers(1, [0.1], scale=np.inf), "scale is inf"),
        (lambda: agentopsd_multipliers(1, [0.1], clip=1.5), "clip is 1.5"),
        (lambda: agentopsd_advantages(1, [0.1], mix=1.5), "mix is 1.5"),
        (lambda: agentopsd_advantages(1, [np.inf]), r"turn_differences\[0\] is inf"),
        (lambda: pivotrl_keep([1], 0.6), "rewards has length 1"),
        (lambda: pivotrl_keep([1, 0], np.nan), "ceiling is nan"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
