"""Returns of attempts and reflections against PivoARL's Eqs. 6-8 and the LaMer recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import (
    discounted_returns,
    lamer_reflection_returns,
    pivot_isolated_returns,
    reflection_returns,
)

from . import reference as slow

SPARSE = [np.zeros(3), np.zeros(3), np.array([0.0, 0, 0, 1])]
DENSE = [np.array([0.5, 0, -0.1]), np.array([0.5, 0.5, -0.1]), np.array([0.5, 0.5, 0.5, 10])]


def check(result: list[np.ndarray], expected: list[list[float]]) -> None:
    assert [r.dtype for r in result] == [np.float64] * len(expected)
    for got, want in zip(result, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pivots", [[1, 2], [1, 2, None], np.array([1, 2])])
@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, [0.18225, 0, 0], [0.3645, 0.3645, 0]),
        ({"isolation": False}, [0.18225] * 3, [0.3645] * 3),
        ({"successor": "pivot"}, [0.225, 0, 0], [0.45, 0.45, 0]),
        ({"carry": "lamer"}, [0.119574225, 0.13286025, 0.1476225], [0.295245, 0.32805, 0.3645]),
    ],
)
def test_sparse_chain(
    pivots: list[int | None], options: dict, first: list[float], second: list[float]
) -> None:
    result = pivot_isolated_returns(SPARSE, pivots, 0.9, 0.5, **options)
    check(result, [first, second, [0.729, 0.81, 0.9, 1]])


def test_sparse_reflections() -> None:
    np.testing.assert_allclose(reflection_returns(SPARSE, [1, 2], [False, False, True], 0.9), [0, 0.9])


@pytest.mark.parametrize("pivot", [0, None])
def test_a_restart_from_the_first_turn_breaks_the_chain(pivot: int | None) -> None:
    result = pivot_isolated_returns(SPARSE, [1, pivot], 0.9, 0.5)
    check(result, [[0] * 3, [0] * 3, [0.729, 0.81, 0.9, 1]])


def test_dense_chain() -> None:
    result = pivot_isolated_returns(DENSE, [1, 2], 0.9, 0.5)
    check(result, [[3.01475, -0.09, -0.1], [5.1915, 4.7325, -0.1], [8.645, 9.05, 9.5, 10]])
    np.testing.assert_allclose(reflection_returns(DENSE, [1, 2], [False, False, True], 0.9), [0, 9.5])


def test_success_reward_of_ten() -> None:
    rewards = [np.zeros(4), np.array([0.0, 0, 0, 0, 10])]
    result = pivot_isolated_returns(rewards, [2], 0.95, 0.6)
    for got, want in zip(
        result, [[4.887038, 4.887038, 0, 0], [8.145062, 8.57375, 9.025, 9.5, 10]], strict=True
    ):
        np.testing.assert_allclose(got, want, atol=5e-7)
    np.testing.assert_allclose(reflection_returns(rewards, [2], [False, True], 0.95), [9.025])


def test_the_last_attempt_and_a_single_attempt_have_plain_returns() -> None:
    check(pivot_isolated_returns([[0.0, 1]], [], 0.9, 0.5), [[0.9, 1]])
    assert reflection_returns([[0.0, 1]], [], [True], 0.9).shape == (0,)


def test_invalid_reflections_earn_nothing() -> None:
    success = [False, True, True]
    assert reflection_returns(DENSE, [1, 2], success, 0.9).all()
    assert reflection_returns(DENSE, [None, 2], success, 0.9)[0] == 0
    np.testing.assert_array_equal(reflection_returns(DENSE, [1, 2], success, 0.9, [False, False]), [0, 0])
    assert not reflection_returns(DENSE, [1, 2], [True, False, False], 0.9).any()


def test_lamer_reflections_earn_the_next_start_return() -> None:
    np.testing.assert_allclose(lamer_reflection_returns(SPARSE, 0.9, 0.5), [0.295245, 0.729])


def test_an_attempt_without_turns_passes_credit_on() -> None:
    rewards = [np.zeros(2), np.zeros(0), np.array([0.0, 1])]
    result = pivot_isolated_returns(rewards, [1, None], 0.9, 0.5, carry="lamer")
    check(result, [[0.9 * 0.25 * 0.9, 0.25 * 0.9], [], [0.9, 1]])
    check(pivot_isolated_returns(rewards, [1, None], 0.9, 0.5), [[0, 0], [], [0.9, 1]])


def random_chain(rng: np.random.Generator) -> tuple[list[np.ndarray], list[int | None]]:
    rewards = [rng.normal(size=rng.integers(0, 6)) * (rng.random() < 0.8) for _ in range(rng.integers(1, 5))]
    pivots = [
        None if rng.random() < 0.15 or not r.size else int(rng.integers(0, r.size)) for r in rewards[:-1]
    ]
    return rewards, pivots


def test_returns_agree_with_the_definitions() -> None:
    for rng in slow.cases(1):
        rewards, pivots = random_chain(rng)
        step, traj = rng.random(2)
        np.testing.assert_allclose(
            discounted_returns(rewards[0], step), slow.discounted(rewards[0], step), atol=1e-12
        )
        for isolation in (True, False):
            for successor in ("start", "pivot"):
                got = pivot_isolated_returns(
                    rewards, pivots, step, traj, isolation=isolation, successor=successor
                )
                check(got, slow.pivot_isolated(rewards, pivots, step, traj, isolation, successor))
        lamer = slow.lamer(rewards, step, traj)
        check(pivot_isolated_returns(rewards, pivots, step, traj, carry="lamer"), lamer)
        if all(r.size for r in rewards):
            starts = lamer_reflection_returns(rewards, step, traj)
            np.testing.assert_allclose(starts, [g[0] for g in lamer[1:]], atol=1e-12)
        success = list(rng.random(len(rewards)) < 0.5)
        valid = list(rng.random(len(rewards) - 1) < 0.8)
        np.testing.assert_allclose(
            reflection_returns(rewards, pivots, success, step, valid),
            slow.reflections(rewards, pivots, success, step, valid),
            atol=1e-12,
        )


@given(
    prefix=st.lists(st.floats(-10, 10), min_size=1, max_size=6),
    later=st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=6), min_size=1, max_size=3),
    data=st.data(),
)
def test_the_replayed_suffix_never_depends_on_later_attempts(
    prefix: list[float], later: list[list[float]], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(prefix) - 1))
    pivots = [k] + [data.draw(st.integers(0, len(r) - 1)) for r in later[:-1]]
    full = pivot_isolated_returns([prefix, *later], pivots, 0.95, 0.6)[0]
    alone = discounted_returns(prefix, 0.95)
    np.testing.assert_array_equal(full[k:], alone[k:])


def test_credit_of_the_prefix_does_depend_on_later_attempts() -> None:
    lost = pivot_isolated_returns([[0.0, 0], [0.0, 0]], [1], 0.9, 0.5)[0]
    won = pivot_isolated_returns([[0.0, 0], [0.0, 1]], [1], 0.9, 0.5)[0]
    assert won[0] > lost[0]
    assert won[1] == lost[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discounted_returns([0, np.nan, 1], 0.9), r"rewards\[1\] is nan"),
        (lambda: discounted_returns([0, 1], 1.5), "gamma is 1.5; set a number from 0 to 1"),
        (lambda: discounted_returns([0, 1], np.nan), "gamma is nan"),
        (lambda: discounted_returns(np.zeros((2, 2)), 0.9), "one-dimensional"),
        (lambda: pivot_isolated_returns([[0, 1], [np.inf]], [1], 0.9, 0.5), r"rewards\[1\]\[0\] is inf"),
        (
            lambda: pivot_isolated_returns([[0, 1], [1]], [2], 0.9, 0.5),
            r"pivots\[0\] is 2 but attempt 0 has 2",
        ),
        (lambda: pivot_isolated_returns([[0], [1]], [1], 0.9, 0.5), r"pivots\[0\] is 1 but attempt 0 has 1"),
        (lambda: pivot_isolated_returns([[0], [1]], [0], 0.9, 1.5), "gamma_traj is 1.5"),
        (lambda: pivot_isolated_returns([[0, 1], [1]], [-1], 0.9, 0.5), r"pivots\[0\] is -1"),
        (lambda: pivot_isolated_returns([[0, 1], [1]], [0.5], 0.9, 0.5), r"pivots\[0\] is 0.5"),
        (lambda: pivot_isolated_returns([[0, 1], [1]], [True], 0.9, 0.5), r"pivots\[0\] is True"),
        (lambda: pivot_isolated_returns([[0, 1]] * 3, [1], 0.9, 0.5), "length 1 but rewards has length 3"),
        (lambda: pivot_isolated_returns([], [], 0.9, 0.5), "at least one attempt"),
        (lambda: pivot_isolated_returns([[0], [1]], [0], 0.9, 0.5, successor="end"), "successor is 'end'"),
        (lambda: pivot_isolated_returns([[0], [1]], [0], 0.9, 0.5, carry="all"), "carry is 'all'"),
        (
            lambda: pivot_isolated_returns([[0], [1]], [0], 0.9, 0.5, carry="lamer", successor="pivot"),
            "set successor='start'",
        ),
        (
            lambda: reflection_returns([[0], [1]], [0], [True], 0.9),
            "success has length 1 but rewards has length 2",
        ),
        (lambda: reflection_returns([[0], [1]], [0], [0, 1], 0.9, [True] * 3), "valid has length 3"),
        (lambda: lamer_reflection_returns([[0], [1]], 0.9, 1.5), "gamma_traj is 1.5"),
        (lambda: lamer_reflection_returns([[0], [1]], 0.9, -0.1), "gamma_traj is -0.1"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
