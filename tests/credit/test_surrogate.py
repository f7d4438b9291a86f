"""Surrogate values and sequence ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest

from turnpoint.credit import gspo_ratio, ppo_surrogate

from . import reference as slow


def test_ppo_values() -> None:
    np.testing.assert_allclose(ppo_surrogate([1.3, 1.3, 0.7, 0.7], [1, -1, 1, -1]), [-1.2, 1.3, -0.7, 0.8])


def test_gspo_value() -> None:
    assert gspo_ratio([0.1, -0.1, 0.3]) == pytest.approx(1.10517, abs=1e-5)
    assert gspo_ratio([0.0]) == 1.0


def test_gspo_clip_range() -> None:
    loss = ppo_surrogate([1.001, 0.999, 1.0002], [1, -1, 1], clip=3e-4, clip_high=4e-4)
    np.testing.assert_allclose(loss, [-1.0004, 0.9997, -1.0002], rtol=1e-12)


def test_dual_clip_bounds_negative_advantages_only() -> None:
    np.testing.assert_allclose(ppo_surrogate([10, 10, 2], [-1, 1, -1], dual_clip=3), [3, -1.2, 2])
    np.testing.assert_allclose(ppo_surrogate([10, 10, 2], [-1, 1, -1]), [10, -1.2, 2])


def test_agrees_with_the_definition() -> None:
    def loss(rho: float, a: float, low: float, high: float, dual: float | None) -> float:
        value = max(-rho * a, -slow.clipped(rho, 1 - low, 1 + high) * a)
        return min(value, dual * abs(a)) if dual is not None and a < 0 else value

    for rng in slow.cases(8):
        size = int(rng.integers(1, 9))
        logs, advantages = rng.normal(size=size), rng.normal(size=size)
        low, high = rng.random(2) + 0.01
        dual = None if rng.random() < 0.5 else 1.5
        np.testing.assert_allclose(
            ppo_surrogate(np.exp(logs), advantages, clip=low, clip_high=high, dual_clip=dual),
            [loss(math.exp(x), a, low, high, dual) for x, a in zip(logs, advantages, strict=True)],
        )
        product = math.prod(math.exp(x) for x in logs)
        assert gspo_ratio(logs) == pytest.approx(product ** (1 / size))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ppo_surrogate([1, 1], [1]), "ratios has length 2 but advantages has length 1"),
        (lambda: ppo_surrogate([1, -0.1], [1, 1]), r"ratios\[1\] is -0.1; pass ratios, not log-ratios"),
        (lambda: ppo_surrogate([1], [1], clip=0), "clip is 0.0"),
        (lambda: ppo_surrogate([1], [1], clip_high=-1), "clip_high is -1.0"),
        (lambda: ppo_surrogate([1], [1], dual_clip=1), "dual_clip is 1; set a number above 1"),
        (lambda: gspo_ratio([]), "log_ratios is empty"),
        (lambda: gspo_ratio([0, np.inf]), r"log_ratios\[1\] is inf"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
