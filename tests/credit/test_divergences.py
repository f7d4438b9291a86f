"""Divergence reference values: named directions, tail bucket, never negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import divergence, generalised_jsd, with_tail_bucket

from . import reference as slow

T, S = np.log([0.7, 0.3]), np.log([0.4, 0.6])


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize(("beta", "expected"), [(0.5, 0.046201), (0, 0.183787), (1, 0.192042)])
def test_worked_values(beta: float, expected: float, tail: bool) -> None:
    assert generalised_jsd(T, S, beta=beta, tail=tail) == pytest.approx(expected, abs=1e-6)


def test_directions_have_names() -> None:
    assert divergence(T, S, direction="forward") == pytest.approx(0.183787, abs=1e-6)
    assert divergence(T, S, direction="reverse") == pytest.approx(0.192042, abs=1e-6)
    assert divergence(T, S, direction="jsd") == pytest.approx(0.046201, abs=1e-6)
    assert divergence(S, T, direction="forward") == divergence(T, S, direction="reverse")


def test_tail_bucket_holds_the_rest() -> None:
    result = with_tail_bucket(np.log([[0.5, 0.2], [0.25, 0.75]]))
    np.testing.assert_allclose(np.exp(result), [[0.5, 0.2, 0.3], [0.25, 0.75, 1e-12]], atol=1e-15)


def test_a_top_k_subset_bounds_the_full_divergence_from_below() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(20), size=(2, 50))
    full = generalised_jsd(np.log(p), np.log(q), beta=0)
    top = generalised_jsd(np.log(p[:, :5]), np.log(q[:, :5]), beta=0, tail=True)
    assert (top <= full + 1e-12).all()
    assert (top > 0).all()


def test_impossible_tokens() -> None:
    with np.errstate(divide="ignore"):
        p, q = np.log([0.5, 0.5, 0.0]), np.log([0.25, 0.25, 0.5])
    assert generalised_jsd(p, q, beta=0) == pytest.approx(np.log(2))
    assert np.isfinite(generalised_jsd(p, q, beta=0.5))
    with pytest.raises(ValueError, match=r"KL\(student \|\| teacher\) is infinite"):
        generalised_jsd(p, q, beta=1)


@given(
    weights=st.lists(st.tuples(st.floats(1e-6, 1), st.floats(1e-6, 1)), min_size=1, max_size=8),
    beta=st.floats(0, 1),
    tail=st.booleans(),
)
def test_never_negative_and_zero_for_the_student_itself(
    weights: list[tuple[float, float]], beta: float, tail: bool
) -> None:
    array = np.array(weights).T
    p, q = np.log(array / array.sum(axis=1, keepdims=True) * (0.9 if tail else 1.0))
    assert generalised_jsd(p, q, beta=beta, tail=tail) >= 0
    assert generalised_jsd(p, p, beta=beta, tail=tail) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_plain_kl_to_itself_is_exactly_zero(beta: float) -> None:
    p = np.log(np.random.default_rng(0).dirichlet(np.ones(9), size=30))
    assert not generalised_jsd(p, p, beta=beta).any()


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(7):
        size, tail = int(rng.integers(1, 7)), bool(rng.random() < 0.5)
        p, q = rng.dirichlet(np.ones(size + tail), size=2)[:, :size]
        beta = float(rng.choice([0.0, 1.0, rng.random()]))
        expected = slow.jsd(p, q, beta, tail)
        got = generalised_jsd(np.log(p), np.log(q), beta=beta, tail=tail)
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)
        name = {0.0: "forward", 1.0: "reverse"}.get(beta, "jsd")
        assert (
            divergence(np.log(p), np.log(q), direction=name, beta=0.5 if name != "jsd" else beta, tail=tail)
            == got
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generalised_jsd(T, S[:1]), r"teacher has shape \(2,\) but student has shape \(1,\)"),
        (lambda: generalised_jsd([0.7, 0.3], S), r"teacher\[0\] is 0.7, which is no log-prob"),
        (lambda: generalised_jsd(T, [[-1, np.nan]]), r"student\[0, 1\] is nan"),
        (lambda: generalised_jsd(T[:1], S[:1]), "sum to 0.7; set tail=True"),
        (lambda: generalised_jsd(T, S, beta=1.5), "beta is 1.5"),
        (lambda: generalised_jsd(0.0, 0.0), "non-empty last axis"),
        (lambda: divergence(T[:1], S[:1], direction="forward"), "sum to 0.7; set tail=True"),
        (lambda: divergence(T, S, direction="kl"), "direction is 'kl'; set one of 'forward'"),
        (lambda: divergence(T, S, direction="jsd", beta=1.0), "set direction='forward' or 'reverse'"),
        (lambda: divergence(T, S, direction="jsd", beta=0.0), "set direction='forward' or 'reverse'"),
        (lambda: with_tail_bucket(np.log([0.7, 0.7])), "probabilities sum to 1.4"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
