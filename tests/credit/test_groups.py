"""Group advantages: GRPO numbers, floors, order independence and the definition from the standard library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import group_advantages, step_advantages, zero_variance_fraction

from . import reference as slow

MODES = ["mean", "mean_std"]


def test_grpo() -> None:
    result = group_advantages([1, 0, 0, 0], [7] * 4, normalise="mean_std")
    np.testing.assert_allclose(result, [1.5, -0.5, -0.5, -0.5], atol=1e-5)
    assert result.dtype == np.float64


@pytest.mark.parametrize("normalise", MODES)
@pytest.mark.parametrize("value", [0.35, 0.1, 1 / 3, 0.0, -0.7, 1e-9, 1e9])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 64])
def test_equal_values_and_a_group_of_one_give_exactly_zero(normalise: str, value: float, size: int) -> None:
    assert not group_advantages([value] * size, ["task"] * size, normalise=normalise).any()


@pytest.mark.parametrize("normalise", MODES)
def test_values_equal_up_to_rounding_give_exactly_zero(normalise: str) -> None:
    assert 0.1 + 0.2 != 0.3
    assert not group_advantages([0.1 + 0.2, 0.3, 0.3], [0] * 3, normalise=normalise).any()


def test_float32_noise_is_not_blown_up() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.35, 1.0, 10.0):
        values = scale * (1.0 + 3e-4 * rng.standard_normal(8))
        assert 0 < np.std(values, ddof=1) <= 5e-4 * np.abs(values).max()
        assert not group_advantages(values, [0] * 8, normalise="mean_std").any()
        assert group_advantages(values, [0] * 8, normalise="mean").any()


def test_small_but_real_differences_keep_their_signal() -> None:
    step_penalty = [9.70, 9.71, 9.69, 9.70]
    assert np.abs(group_advantages(step_penalty, [0] * 4, normalise="mean_std")).max() > 1
    late_returns = [0.9**49, 0.9**50]
    np.testing.assert_allclose(
        np.abs(group_advantages(late_returns, [0, 0], normalise="mean_std")), 0.5**0.5, rtol=0.01
    )


def test_step_groups_compare_equal_states_only() -> None:
    result = step_advantages([3.0, 1.0, 5.0, 9.0, 2.0], ["a", "a", "b", None, None], normalise="mean")
    np.testing.assert_array_equal(result, [1, -1, 0, 0, 0])


def test_states_of_different_tasks_are_not_compared() -> None:
    apart = step_advantages([3.0, 1.0], ["a", "a"], normalise="mean", groups=[0, 1])
    np.testing.assert_array_equal(apart, [0, 0])
    np.testing.assert_array_equal(step_advantages([3.0, 1.0], ["a", "a"], normalise="mean"), [1, -1])


def test_zero_variance_fraction() -> None:
    values, labels = [1, 1, 0, 1, 5, 0.3, 0.1 + 0.2], [0, 0, 1, 1, 2, 3, 3]
    assert zero_variance_fraction(values, labels) == 0.75
    assert zero_variance_fraction([], []) == 0.0


@pytest.mark.parametrize("normalise", MODES)
def test_agrees_with_the_definition(normalise: str) -> None:
    for rng in slow.cases(2):
        size = int(rng.integers(0, 14))
        labels = rng.integers(0, 5, size=size)
        values = rng.choice([0.0, 1.0, 0.35], size=size) if rng.random() < 0.5 else rng.normal(size=size)
        expected = slow.group(values.tolist(), labels.tolist(), normalise == "mean_std")
        np.testing.assert_allclose(group_advantages(values, labels, normalise=normalise), expected, atol=1e-9)
        dead = [
            peers for peers in map(labels.__eq__, set(labels.tolist())) if np.unique(values[peers]).size == 1
        ]
        share = len(dead) / max(1, len(set(labels.tolist())))
        assert zero_variance_fraction(values, labels) == share
        states = [("s", int(label)) for label in labels]
        np.testing.assert_allclose(step_advantages(values, states, normalise=normalise), expected, atol=1e-9)


@pytest.mark.parametrize("normalise", MODES)
def test_equal_weights_of_split_rows_leave_the_result_alone(normalise: str) -> None:
    values, split = np.array([1.0, 0.0, 0.5]), [3, 1, 7]
    rows = np.repeat(values, split)
    weights = np.repeat(1 / np.array(split), split)
    result = group_advantages(rows, [0] * rows.size, normalise=normalise, weights=weights)
    plain = group_advantages(values, [0] * 3, normalise=normalise)
    np.testing.assert_allclose(result, np.repeat(plain, split), rtol=1e-12)
    one_episode = group_advantages([1.0, 0.5, 1.0], [0] * 3, normalise=normalise, weights=[1 / 3] * 3)
    assert not one_episode.any()


@given(
    rows=st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 3)), min_size=1, max_size=20),
    seed=st.integers(0, 2**32 - 1),
    normalise=st.sampled_from(MODES),
)
def test_order_does_not_matter_to_the_last_bit(
    rows: list[tuple[float, int]], seed: int, normalise: str
) -> None:
    values, labels = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    order = np.random.default_rng(seed).permutation(len(rows))
    straight = group_advantages(values, labels, normalise=normalise)
    np.testing.assert_array_equal(
        group_advantages(values[order], labels[order], normalise=normalise), straight[order]
    )


@given(
    values=st.lists(st.floats(-100, 100), min_size=2, max_size=12),
    normalise=st.sampled_from(MODES),
)
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order(values: list[float], normalise: str) -> None:
    result = group_advantages(values, [0] * len(values), normalise=normalise)
    assert abs(result.sum()) <= 1e-9 * max(1.0, float(np.abs(result).sum()))
    assert (np.diff(result[np.argsort(values, kind="stable")]) >= 0).all()
    if normalise == "mean_std":
        assert np.abs(result).max() <= len(values) ** 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: group_advantages([1, 2], [0]), "values has length 2 but groups has length 1"),
        (lambda: group_advantages([1, np.nan, np.inf], [0] * 3), r"values\[1\] is nan \(and 1 more\)"),
        (lambda: group_advantages([1, 2], [0, 0], normalise="std"), "normalise is 'std'; set one of 'mean'"),
        (lambda: group_advantages([1, 2], [[0], [0]]), r"groups\[0\] is a list"),
        (lambda: group_advantages([1, 2], [0, 0], weights=[1]), "weights has length 1"),
        (lambda: group_advantages([1, 2], [0, 0], weights=[1, 0]), r"weights\[1\] is 0.0"),
        (
            lambda: step_advantages([1, 2], ["a"], normalise="mean"),
            "returns has length 2 but anchors has length 1",
        ),
        (lambda: step_advantages([1], ["a"], normalise="mean", groups=[1, 2]), "groups has length 2"),
        (lambda: step_advantages([1], [{}], normalise="mean"), r"anchors\[0\] is a dict"),
        (lambda: zero_variance_fraction([1], []), "values has length 1 but groups has length 0"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
