"""Sampled distillation advantages: PivotOPD's numbers, STRIDE's tokens, OPID."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import (
    combined_advantages,
    distillation_advantages,
    group_advantages,
    opid_advantages,
    reverse_kl_advantages,
)

from . import reference as slow

HINTED, PLAIN = [-0.1, -2, -9, -0.3], [-0.2, -0.5, -1, -8.3]
LESSON = [-0.15, -0.6, -1.2, -8.0]

logprob_pairs = st.lists(st.tuples(st.floats(-1e4, 0), st.floats(-1e4, 0)), min_size=0, max_size=12)


def test_difference_of_hinted_and_plain() -> None:
    np.testing.assert_allclose(distillation_advantages(HINTED, PLAIN, weight=1), [0.1, -1.5, -8, 8])


def test_preventive_and_lesson_are_added_unclipped() -> None:
    preventive = 0.5 + distillation_advantages(HINTED, PLAIN, weight=0.001)
    np.testing.assert_allclose(preventive, [0.5001, 0.4985, 0.492, 0.508])
    np.testing.assert_allclose(combined_advantages(0.5, PLAIN, [(HINTED, 0.001)]), preventive)
    both = combined_advantages(0.5, PLAIN, [(HINTED, 0.001), (LESSON, 0.001)])
    np.testing.assert_allclose(both, [0.50015, 0.4984, 0.4918, 0.5083])
    opid = opid_advantages(0.5, PLAIN, HINTED, LESSON)
    np.testing.assert_array_equal(opid, both)


def test_recovery_clips_first_and_weights_second() -> None:
    result = distillation_advantages(HINTED, PLAIN, weight=0.25, clip=5)
    np.testing.assert_allclose(result, [0.025, -0.375, -1.25, 1.25])


def test_stride_tokens() -> None:
    np.testing.assert_allclose(reverse_kl_advantages([-0.2, -3], [-0.1, -0.3]), [-0.1, -2.7])
    np.testing.assert_allclose(reverse_kl_advantages([-0.2, -3], [-0.1, -0.3], coef=2), [-0.2, -5.4])


def test_opid_without_a_skill_is_the_group_advantage() -> None:
    np.testing.assert_array_equal(opid_advantages(0.35, PLAIN, None, None), [0.35] * 4)
    np.testing.assert_array_equal(
        opid_advantages(0.35, PLAIN, None, HINTED),
        0.35 + distillation_advantages(HINTED, PLAIN, weight=0.001),
    )


def test_zero_weights_are_grpo_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    for advantage in group_advantages(rng.normal(size=50), [0] * 50, normalise="mean_std"):
        hinted, lesson, plain = -rng.exponential(size=(3, 6))
        result = combined_advantages(advantage, plain, {"gold": (hinted, 0.0), "lesson": (lesson, 0.0)})
        np.testing.assert_array_equal(result, [advantage] * 6)


@given(logprob_pairs, st.floats(0, 2), st.floats(1e-3, 10))
def test_recovery_advantages_are_bounded(
    pairs: list[tuple[float, float]], weight: float, clip: float
) -> None:
    hinted, plain = [p[0] for p in pairs], [p[1] for p in pairs]
    result = distillation_advantages(hinted, plain, weight=weight, clip=clip)
    assert (np.abs(result) <= weight * clip).all()
    assert (np.sign(result) * np.sign(np.subtract(hinted, plain)) >= 0).all()


@given(st.lists(st.floats(-1e4, 0), max_size=12), st.floats(-2, 2))
def test_a_teacher_that_equals_the_student_gives_exactly_zero(logprobs: list[float], weight: float) -> None:
    assert not distillation_advantages(logprobs, logprobs, weight=weight).any()
    assert not distillation_advantages(logprobs, logprobs, weight=weight, clip=5).any()
    assert not reverse_kl_advantages(logprobs, logprobs, coef=weight).any()
    np.testing.assert_array_equal(
        combined_advantages(0.35, logprobs, [(logprobs, weight)]), [0.35] * len(logprobs)
    )


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(6):
        size = int(rng.integers(0, 9))
        hinted, lesson, plain = -10 * rng.exponential(size=(3, size))
        weight, other, clip = rng.normal(), rng.normal(), rng.exponential() + 0.1
        advantage = rng.normal(size=size) if rng.random() < 0.5 else np.full(size, rng.normal())
        triples = list(zip(hinted, lesson, plain, advantage, strict=True))
        np.testing.assert_allclose(
            distillation_advantages(hinted, plain, weight=weight, clip=clip),
            [weight * slow.clipped(h - p, -clip, clip) for h, _, p, _ in triples],
        )
        np.testing.assert_allclose(
            distillation_advantages(hinted, plain, weight=weight),
            [weight * (h - p) for h, _, p, _ in triples],
        )
        np.testing.assert_allclose(
            reverse_kl_advantages(hinted, plain, coef=weight), [weight * (h - p) for h, _, p, _ in triples]
        )
        expected = [a + weight * (h - p) + other * (x - p) for h, x, p, a in triples]
        np.testing.assert_allclose(
            combined_advantages(advantage, plain, [(hinted, weight), (lesson, other)]), expected, atol=1e-12
        )
        np.testing.assert_allclose(
            opid_advantages(advantage, plain, hinted, lesson, episode_weight=weight, step_weight=other),
            expected,
            atol=1e-12,
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: distillation_advantages([0, 1], [0], weight=1),
            "hinted has length 2 but plain has length 1",
        ),
        (lambda: distillation_advantages([-np.inf, 0], [0, 0], weight=1), r"hinted\[0\] is -inf"),
        (lambda: distillation_advantages([0], [np.nan], weight=1), r"plain\[0\] is nan"),
        (lambda: distillation_advantages([0], [0], weight=np.nan), "weight is nan"),
        (lambda: distillation_advantages([0], [0], weight=1, clip=0), "clip is 0.0; set a number above 0"),
        (lambda: distillation_advantages([0], [0], weight=1, clip=-5), "clip is -5.0"),
        (lambda: reverse_kl_advantages([0], [0, 0]), "teacher has length 1 but student has length 2"),
        (lambda: combined_advantages([1, 2], [0], []), "advantage has length 2 but the row has 1"),
        (lambda: combined_advantages(np.nan, [0], []), r"advantage\[0\] is nan"),
        (lambda: combined_advantages(1, [0], {"lesson": ([0, 0], 1)}), r"terms\['lesson'\] has length 2"),
        (lambda: combined_advantages(1, [0], [([0], np.inf)]), r"weight of terms\[0\] is inf"),
        (lambda: opid_advantages(1, [0], [0, 0], None), "'episode_hinted'. has length 2"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
