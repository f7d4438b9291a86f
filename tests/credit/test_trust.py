"""Votes, shares and their uncertainty, the weight of recovery, and how deep it goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import (
    agreement,
    posterior_share,
    recovered_within,
    recovery_weight,
    turns_to_recover,
    wilson_interval,
)

answers = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=4), min_size=1, max_size=7
)
branches = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=40)


def test_a_vote_by_hand() -> None:
    found = agreement([[(3, "a")], [(3, "a"), (5, "c")], [(3, "b")], [], [(3, "a")]])
    assert found == {3: ("a", 0.6), 5: ("c", 0.2)}
    assert list(found) == [3, 5]


def test_ties_go_to_what_was_seen_first_and_a_turn_counts_once_in_an_answer() -> None:
    assert agreement([[(1, "b")], [(1, "a")]]) == {1: ("b", 0.5)}
    assert agreement([[(1, "b"), (1, "a")], [(1, "a")], [(1, "b")]])[1] == ("b", pytest.approx(2 / 3))


@given(answers)
def test_shares_are_counts_of_answers(given_answers) -> None:
    found = agreement(given_answers)
    shares = [share for _, share in found.values()]
    assert shares == sorted(shares, reverse=True)
    assert set(found) == {turn for answer in given_answers for turn, _ in answer}
    for turn, (action, share) in found.items():
        first = [next((a for t, a in answer if t == turn), None) for answer in given_answers]
        assert share == first.count(action) / len(given_answers)
        assert all(first.count(other) <= first.count(action) for other in "abc")


def test_the_posterior_by_hand() -> None:
    assert posterior_share(8, 10) == 0.75
    assert posterior_share(0, 0) == 0.5
    assert posterior_share(0, 0, (9, 1)) == 0.9
    with pytest.raises(ValueError, match="no share"):
        posterior_share(3, 2)


def test_wilson_by_hand() -> None:
    np.testing.assert_allclose(wilson_interval(8, 10), (0.490162, 0.943318), atol=1e-6)
    np.testing.assert_allclose(wilson_interval(0, 10), (0, 0.277533), atol=1e-6)
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(st.integers(0, 500), st.integers(0, 500))
def test_intervals_hold_the_share_and_mirror_each_other(right, wrong) -> None:
    low, high = wilson_interval(right, right + wrong)
    assert 0 <= low <= high <= 1
    if right + wrong:
        assert low - 1e-12 <= right / (right + wrong) <= high + 1e-12
    other_low, other_high = wilson_interval(wrong, right + wrong)
    assert (1 - high, 1 - low) == pytest.approx((other_low, other_high), abs=1e-12)


def test_the_weight_of_recovery_by_hand() -> None:
    preventive = 0.001 * (30 + 50 + 40)
    assert recovery_weight(preventive, 3 * 40, 1000, w_rec=1, limit=10) == pytest.approx(1.0)
    assert recovery_weight(preventive, 2 * 3 * 40, 1000, w_rec=1, limit=10) == pytest.approx(0.5)
    assert recovery_weight(preventive, 1, 1000, w_rec=1, limit=10) == 10
    assert recovery_weight(preventive, 1e9, 1000, w_rec=1, limit=10) == 0.1
    with pytest.raises(ValueError, match="1 or more"):
        recovery_weight(preventive, 1, 1000, w_rec=1, limit=0.5)


@given(
    st.floats(1e-3, 1e3), st.integers(1, 100_000), st.floats(1e-3, 1e3), st.floats(1e-2, 10), st.floats(1, 50)
)
def test_recovery_weighs_the_same_whatever_its_tokens(preventive, tokens, ratio, w_rec, limit) -> None:
    weight = recovery_weight(preventive, tokens, ratio, w_rec=w_rec, limit=limit)
    assert w_rec / limit <= weight <= w_rec * limit
    if w_rec / limit < weight < w_rec * limit:
        assert weight * tokens / preventive == pytest.approx(ratio)


EXAMPLE = [*[(1, True)] * 3, (2, True), (2, True), (1, False), (2, False), (2, False)]


def test_depths_by_hand() -> None:
    np.testing.assert_allclose(recovered_within(EXAMPLE), [0.375, 0.6875])
    assert [turns_to_recover(EXAMPLE, q) for q in (0.3, 0.5, 0.8)] == [1, 2, None]
    assert recovered_within([(0, False), (3, False)]).size == 0
    assert turns_to_recover([], 0.5) is None


@given(branches.filter(lambda found: all(turns for turns, recovered in found if recovered)))
def test_shares_recovered_rise_and_are_plain_shares_where_nothing_was_cut(found) -> None:
    shares = recovered_within(found)
    assert np.all(np.diff(shares) >= -1e-12)
    assert np.all((shares >= 0) & (shares <= 1 + 1e-12))
    whole = [(turns if recovered else 1_000, recovered) for turns, recovered in found]
    for depth, share in enumerate(recovered_within(whole), start=1):
        assert share == pytest.approx(sum(r and t <= depth for t, r in whole) / len(whole))
