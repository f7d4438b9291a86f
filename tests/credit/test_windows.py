"""STRIDE's stop and restart rules."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import (
    early_stop_token,
    early_stop_turn,
    leading_run,
    restart_turn,
    threshold_from_errors,
    threshold_from_successes,
)

from . import reference as slow

SCORES = [-0.5, -0.6, -1.5]


@pytest.mark.parametrize(
    ("threshold", "reused", "expected"),
    [
        (-1, 0, 2),
        (-2, 0, 3),
        (-2.6, 0, None),
        (-3, 0, None),
        (-1.8, 1, 3),
        (-1, 2, 3),
        (-1.5, 2, None),
        (-1, 3, None),
        (-np.inf, 0, None),
    ],
)
def test_early_stop(threshold: float, reused: int, expected: int | None) -> None:
    assert early_stop_turn(SCORES, threshold, reused) == expected
    assert early_stop_turn(np.array(SCORES), threshold, reused=reused) == expected


@pytest.mark.parametrize(
    ("scores", "floor", "kmax", "expected"),
    [
        ([-0.5, -0.75, -0.6, -0.9, -0.4], -0.8, 3, 2),
        ([-0.5, -0.75, -0.6, -0.9, -0.4], None, 5, 4),
        ([-0.9, -0.1], -0.8, 0, None),
        ([-0.8, -0.1], -0.8, 0, None),
        ([-0.5, -0.5, -0.6], -0.8, 3, 3),
        ([-0.6, -0.6, -0.5], -0.8, 3, 1),
        ([-0.7], -0.8, 1, 1),
        ([], -0.8, 0, None),
    ],
)
def test_restart(scores: list[float], floor: float | None, kmax: int, expected: int | None) -> None:
    assert leading_run(scores, floor) == kmax
    assert restart_turn(scores, floor) == expected


def test_two_rounds() -> None:
    first = [-0.5, -0.7, -0.6]
    assert early_stop_turn(first, -1.5) == 3
    assert restart_turn(first, -0.8) == 2
    second = [-0.5, -0.4, -0.9, -0.5]
    assert early_stop_turn(second[:3], -1.5, reused=1) is None
    assert early_stop_turn(second, -1.5, reused=1) == 4
    assert restart_turn(second, -0.8, reused=1) == 1
    assert restart_turn(second, -0.8, argmin_over="new", reused=1) == 2


def test_only_new_turns_qualify_under_new() -> None:
    assert restart_turn([-0.7, -0.2, -0.9], -0.8, argmin_over="all", reused=2) == 1
    assert restart_turn([-0.7, -0.2, -0.9], -0.8, argmin_over="new", reused=2) is None


def test_a_turn_without_tokens_adds_nothing_and_is_not_correct() -> None:
    assert early_stop_turn([-0.5, None, -0.6], -1) == 3
    assert early_stop_turn([None, None], -1) is None
    assert leading_run([-0.5, None, -0.6], -0.8) == 1
    assert restart_turn([-0.5, None, -0.9], None) == 1
    assert restart_turn([None, -0.1], None) is None


def test_a_sum_that_equals_the_threshold_does_not_stop() -> None:
    assert sum([-0.1, -0.2]) < -0.3
    assert early_stop_turn([-0.1, -0.2], -0.3) is None
    assert early_stop_turn([-0.1] * 10, -1) is None
    assert early_stop_turn([-0.1] * 11, -1) == 11


def test_tokens() -> None:
    assert early_stop_token([-0.1, -0.2, -3.0, -0.1], -1) == 3
    assert early_stop_token([-0.1, -0.2], -1) is None
    assert early_stop_token([], -1) is None
    assert early_stop_token(np.full(8192, -0.001), -4) == 4001


def test_calibration() -> None:
    assert threshold_from_errors([-1.0, -2.0, -4.0]) == -2.0
    assert threshold_from_errors([-1.0, -2.0], quantile=0.25) == -1.75
    assert threshold_from_successes([[-0.5, -0.7], [-0.6, None]], turns=2) == pytest.approx(-1.2)


@given(
    scores=st.lists(st.floats(-5, 0), max_size=12),
    threshold=st.floats(-10, -0.01),
    reused=st.integers(0, 4),
)
def test_stopping_is_decided_by_the_turns_so_far(scores: list[float], threshold: float, reused: int) -> None:
    reused = min(reused, len(scores))
    whole = early_stop_turn(scores, threshold, reused)
    played = None
    for turn in range(reused, len(scores) + 1):
        played = early_stop_turn(scores[:turn], threshold, reused)
        if played is not None:
            assert played == turn
            break
    assert played == whole
    lower = early_stop_turn(scores, threshold * 2, reused)
    assert lower is None or (whole is not None and whole <= lower)


def test_agrees_with_exact_sums() -> None:
    for rng in slow.cases(11):
        # Scores and thresholds in tenths: many sums hit the threshold exactly.
        tenths = [
            int(t) if rng.random() < 0.9 else None for t in rng.integers(-12, 1, size=rng.integers(0, 9))
        ]
        limit, reused = -int(rng.integers(1, 40)), int(rng.integers(0, len(tenths) + 1))
        exact = [None if t is None else Fraction(t, 10) for t in tenths]
        scores = [None if t is None else t / 10 for t in tenths]
        assert early_stop_turn(scores, limit / 10, reused) == slow.stop(exact, Fraction(limit, 10), reused)
        floor = None if rng.random() < 0.2 else -float(rng.integers(3, 12)) / 10
        assert restart_turn(scores, floor) == slow.restart(scores, floor, 0)
        assert restart_turn(scores, floor, argmin_over="new", reused=reused) == slow.restart(
            scores, floor, reused
        )
        run = 0
        while run < len(scores) and scores[run] is not None and (floor is None or scores[run] > floor):
            run += 1
        assert leading_run(scores, floor) == run
        tokens = rng.normal(-0.3, 0.2, size=30)
        kept = next((i + 1 for i in range(30) if sum(map(Fraction, tokens[: i + 1])) < limit / 10), None)
        assert early_stop_token(tokens, limit / 10) == kept


def test_calibration_agrees_with_the_definition() -> None:
    for rng in slow.cases(12):
        sums, quantile = sorted(-rng.exponential(size=rng.integers(1, 9)) - 0.01), rng.random()
        place = quantile * (len(sums) - 1)
        low = int(place)
        high = min(low + 1, len(sums) - 1)
        expected = sums[low] + (place - low) * (sums[high] - sums[low])
        assert threshold_from_errors(rng.permutation(sums), quantile=quantile) == pytest.approx(expected)
        mean = sum(map(Fraction, sums)) / len(sums)
        assert threshold_from_successes([sums], turns=2.5) == pytest.approx(float(mean) * 2.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: early_stop_turn(SCORES, 0), "threshold is 0.0; .* set a number below 0"),
        (lambda: early_stop_turn(SCORES, 1), "threshold is 1.0"),
        (lambda: early_stop_turn(SCORES, np.nan), "threshold is nan"),
        (lambda: early_stop_turn(SCORES, np.inf), "threshold is inf"),
        (lambda: early_stop_turn([-1, np.nan], -1), r"turn_scores\[1\] is nan"),
        (lambda: early_stop_turn([-1, -np.inf], -np.inf), r"turn_scores\[1\] is -inf"),
        (lambda: early_stop_turn(SCORES, -1, 4), "reused is 4 but there are 3 turn scores"),
        (lambda: early_stop_turn(SCORES, -1, -1), "reused is -1"),
        (lambda: early_stop_turn(SCORES, -1, 0.5), "reused is 0.5"),  # type: ignore[arg-type]
        (lambda: early_stop_token([-1], 0), "threshold is 0.0"),
        (lambda: early_stop_token([np.nan], -1), r"logprobs\[0\] is nan"),
        (lambda: leading_run(SCORES, np.nan), "floor is nan"),
        (lambda: restart_turn([np.nan], -0.8), r"turn_scores\[0\] is nan"),
        (lambda: restart_turn(SCORES, -0.8, argmin_over="old"), "argmin_over is 'old'"),
        (lambda: restart_turn(SCORES, -0.8, argmin_over="new", reused=4), "reused is 4"),
        (lambda: threshold_from_errors([]), "sums_at_first_error is empty"),
        (lambda: threshold_from_errors([1.0]), "calibrated threshold is 1.0"),
        (lambda: threshold_from_errors([0.0]), "calibrated threshold is 0.0"),
        (lambda: threshold_from_errors([-1.0], quantile=2), "quantile is 2.0"),
        (lambda: threshold_from_successes([[None]]), "no turn scores"),
        (lambda: threshold_from_successes([[-1.0]], turns=0), "turns is 0.0"),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
