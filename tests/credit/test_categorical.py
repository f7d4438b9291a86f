"""Expected updates on a categorical policy equal closed forms, finite differences and sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from turnpoint.credit import (
    distillation_advantages,
    expected_logit_update,
    expected_preventive_update,
    expected_recovery_update,
    ppo_surrogate,
)

from . import reference as slow

P, Q = np.array([0.001, 0.899, 0.1]), np.array([0.9, 0.05, 0.05])


def test_recovery_moves_a_starved_action_475_times_as_far() -> None:
    recovery, preventive = expected_recovery_update(Q, P, clip=5), expected_preventive_update(Q, P)
    np.testing.assert_allclose(recovery, [4.495679, -4.028934, -0.466745], atol=1e-6)
    np.testing.assert_allclose(preventive, [0.009462, -0.206143, 0.196681], atol=1e-6)
    assert recovery[0] / preventive[0] == pytest.approx(475, abs=0.5)


def test_recovery_update_is_the_gradient_of_the_clipped_surrogate() -> None:
    """Actions come from the hinted policy, ratios from the unhinted one, as in training."""
    advantages = distillation_advantages(np.log(Q), np.log(P), weight=0.25, clip=5)

    def objective(logits: list[float]) -> float:
        return -float(Q @ ppo_surrogate(np.array(slow.softmax(logits)) / P, advantages))

    slopes = slow.finite_difference(objective, np.log(P).tolist())
    np.testing.assert_allclose(slopes, expected_recovery_update(Q, P, weight=0.25, clip=5), atol=1e-7)


def test_preventive_update_is_the_gradient_of_the_reverse_kl() -> None:
    def objective(logits: list[float]) -> float:
        p = slow.softmax(logits)
        return -0.5 * sum(x * math.log(x / y) for x, y in zip(p, Q, strict=True))

    slopes = slow.finite_difference(objective, np.log(P).tolist())
    np.testing.assert_allclose(slopes, expected_preventive_update(Q, P, weight=0.5), atol=1e-8)


def test_sampling_converges_to_the_expected_update() -> None:
    rng = np.random.default_rng(0)
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1])
    drawn = rng.choice(3, size=200_000, p=q)
    advantages = distillation_advantages(np.log(q)[drawn], np.log(p)[drawn], weight=1, clip=5)
    scores = np.eye(3)[drawn] - p
    np.testing.assert_allclose(
        (advantages[:, None] * scores).mean(axis=0), expected_recovery_update(q, p), atol=0.01
    )


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(9):
        size = int(rng.integers(1, 7))
        b, p, q = rng.dirichlet(np.ones(size), size=3)
        a, clip, weight = rng.normal(size=size), rng.exponential() + 0.1, rng.normal()

        def update(sampler: np.ndarray, policy: np.ndarray, values: list[float]) -> list[float]:
            size = len(values)
            return [
                sum(sampler[y] * values[y] * ((y == i) - policy[i]) for y in range(size)) for i in range(size)
            ]

        difference = [math.log(y) - math.log(x) for x, y in zip(p, q, strict=True)]
        np.testing.assert_allclose(expected_logit_update(b, p, a), update(b, p, list(a)), atol=1e-12)
        np.testing.assert_allclose(
            expected_recovery_update(q, p, weight=weight, clip=clip),
            update(q, p, [weight * slow.clipped(d, -clip, clip) for d in difference]),
            atol=1e-12,
        )
        np.testing.assert_allclose(
            expected_preventive_update(q, p, weight=weight),
            update(p, p, [weight * d for d in difference]),
            atol=1e-12,
        )


def test_a_hint_that_changes_nothing_moves_nothing() -> None:
    assert not expected_recovery_update(P, P).any()
    assert not expected_preventive_update(P, P).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_recovery_update([1, 0], [0.5, 0.5]), r"hinted\[1\] is 0.0"),
        (lambda: expected_preventive_update([0.5, 0.5], [1, 0]), r"plain\[1\] is 0.0"),
        (lambda: expected_recovery_update([0.5, 0.6], [0.5, 0.5]), "sum to 1, got a sum of 1.1"),
        (lambda: expected_logit_update([1.0], [0.5, 0.5], [1, 1]), "sampler has length 1"),
        (lambda: expected_logit_update([0.5, 0.5], [0.5, 0.5], [1]), "advantages has length 1"),
        (lambda: expected_logit_update([0.5, 0.5], [0.5, 0.5], [1, np.nan]), r"advantages\[1\] is nan"),
        (lambda: expected_logit_update([1.5, -0.5], [0.5, 0.5], [1, 1]), "sampler must be probabilities"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
