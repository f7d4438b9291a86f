"""Depth curricula of TCOD and turnOPD."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from turnpoint.credit import (
    b2f_expert_turns,
    blended_token_weights,
    blended_turn_weights,
    coverage_depth,
    depth_cap,
    depth_horizon,
    depth_profile,
    effective_depth,
    f2b_depth,
    linear_alpha,
    smoothed_depth,
)

from . import reference as slow


def test_tcod_front_to_back() -> None:
    depths = [f2b_depth(n, max_turns=30) for n in (0, 1, 2, 3, 10, 57, 58, 1000)]
    assert depths == [1, 1, 2, 2, 6, 29, 30, 30]


def test_tcod_back_to_front() -> None:
    assert [b2f_expert_turns(n, expert_turns=5) for n in (0, 1, 2, 4, 8, 100)] == [4, 4, 3, 2, 0, 0]
    assert b2f_expert_turns(0, expert_turns=1) == 0


def test_turnopd_profile() -> None:
    q = depth_profile([0.5, 0.4, 0.2, -0.05], [8, 8, 6, 2])
    np.testing.assert_allclose(q, [0.47619, 0.38095, 0.14286, 0], atol=1e-5)
    assert effective_depth(q) == 1
    np.testing.assert_array_equal(depth_profile([0.5, 0.4], [8, 0]), [1, 0])


def test_turnopd_without_a_positive_divergence() -> None:
    q = depth_profile([-0.1, 0.0], [4, 2])
    assert not q.any()
    assert effective_depth(q) is None
    assert depth_horizon(None, None) is None
    assert depth_horizon(None, 3) == 3


def test_turnopd_coverage() -> None:
    # Eight of ten successes were complete by turn index 7.
    assert coverage_depth(range(10)) == 7
    assert coverage_depth([9, 2, 2, 2, 2, 2, 2, 2]) == 2
    assert coverage_depth([1] * 7) is None
    assert coverage_depth([3, 5], share=0.1, minimum=2) == 3
    assert depth_horizon(effective_depth([0, 0, 1.0]), coverage_depth([5] * 8)) == 5


def test_turnopd_cap() -> None:
    assert smoothed_depth(None, 6) == 6
    assert smoothed_depth(6, 16) == pytest.approx(9)
    assert [depth_cap(h) for h in (0, 0.4, 1, 9.2, 48.6, 80)] == [2, 2, 2, 10, 50, 50]


def test_turnopd_weights() -> None:
    np.testing.assert_allclose(blended_turn_weights([30, 10], 0), [0.75, 0.25])
    np.testing.assert_allclose(blended_turn_weights([30, 10], 1), [0.5, 0.5])
    np.testing.assert_allclose(blended_turn_weights([30, 10], 0.5), [0.625, 0.375])
    np.testing.assert_array_equal(blended_token_weights([30, 10, 0], 0), [1, 1, 0])
    np.testing.assert_allclose(blended_token_weights([30, 10], 1), [2 / 3, 2])
    np.testing.assert_allclose(blended_turn_weights([30, 0, 10], 1), [0.5, 0, 0.5])
    assert [linear_alpha(n, 10) for n in (0, 5, 10, 12)] == [0, 0.5, 1, 1]


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(13):
        step, size, interval = (int(v) for v in rng.integers(1, 30, size=3))
        begin = int(rng.integers(1, 5))
        assert f2b_depth(step, max_turns=size, start=begin, interval=interval) == min(
            begin + math.floor(Fraction(step, interval)), size
        )
        assert b2f_expert_turns(step, expert_turns=size, interval=interval) == max(
            0, size - 1 - math.floor(Fraction(step, interval))
        )
        signal = rng.normal(0.2, 0.5, size=size).tolist()
        reached = sorted(rng.integers(1, 20, size=size).tolist(), reverse=True)
        mass = [max(k, 0.0) * n / reached[0] for k, n in zip(signal, reached, strict=True)]
        q = depth_profile(signal, reached)
        if sum(mass):
            np.testing.assert_allclose(q, [m / sum(mass) for m in mass])
            assert effective_depth(q) == round(sum(t * m for t, m in enumerate(mass)) / sum(mass))
        turns, share = (
            rng.integers(0, 20, size=rng.integers(0, 15)).tolist(),
            float(rng.choice([0.5, 0.8, 1.0])),
        )
        expected = None
        if len(turns) >= 8:
            tenths = round(share * 10)
            expected = next(h for h in range(20) if 10 * sum(t <= h for t in turns) >= tenths * len(turns))
        assert coverage_depth(turns, share=share) == expected
        assert depth_horizon(step, expected) == (step if expected is None else max(step, expected))
        alpha, tokens = rng.random(), rng.integers(0, 40, size=size).tolist()
        if sum(tokens):
            spoken = sum(n > 0 for n in tokens)
            turn_weights = [(1 - alpha) * n / sum(tokens) + alpha * (n > 0) / spoken for n in tokens]
            np.testing.assert_allclose(blended_turn_weights(tokens, alpha), turn_weights)
            np.testing.assert_allclose(
                blended_token_weights(tokens, alpha),
                [w * sum(tokens) / n if n else 0.0 for w, n in zip(turn_weights, tokens, strict=True)],
            )
        before, now = rng.random(2) * 60
        average = smoothed_depth(before, now)
        assert average == pytest.approx(0.7 * before + 0.3 * now)
        assert depth_cap(average) == slow.clipped(round(average) + 1, 2, 50)
        assert linear_alpha(step, size) == float(min(Fraction(step, size), 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f2b_depth(-1, max_turns=3), "step is -1"),
        (lambda: f2b_depth(1, max_turns=3, interval=0), "interval is 0"),
        (lambda: b2f_expert_turns(1, expert_turns=0), "expert_turns is 0"),
        (lambda: depth_profile([], []), "no probe rollout"),
        (lambda: depth_profile([0.1], [0]), "no probe rollout"),
        (
            lambda: depth_profile([0.1, 0.1], [1]),
            "turn_divergences has length 2 but turn_counts has length 1",
        ),
        (lambda: depth_profile([0.1, 0.1], [1, -1]), r"turn_counts\[1\] is -1"),
        (lambda: depth_profile([np.nan], [1]), r"turn_divergences\[0\] is nan"),
        (lambda: coverage_depth([1] * 9, share=0), "share is 0"),
        (lambda: coverage_depth([1] * 9, share=1.1), "share is 1.1"),
        (lambda: smoothed_depth(None, np.nan), "horizon is nan"),
        (lambda: smoothed_depth(1, 1, rate=2), "rate is 2.0"),
        (lambda: depth_cap(3, low=5, high=4), "low is 5 but high is 4"),
        (lambda: linear_alpha(1, 0), "total is 0"),
        (lambda: blended_turn_weights([0, 0], 0.5), "holds no tokens"),
        (lambda: blended_turn_weights([1, -1], 0.5), r"turn_tokens\[1\] is -1"),
        (lambda: blended_token_weights([1], 2), "alpha is 2.0"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
