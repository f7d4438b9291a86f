from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.pivots import preference_groups, success_at, summarise_chains
from turnpoint.pivots.chains import until_success
from turnpoint.records import Attempt, Episode, Fork, Observation, StopReason, Task, Turn, chains_of


def attempt(task: str, states: str, *, success=False, reused=0, index=0, stop=None, reward=None) -> Episode:
    """One turn for each letter of ``states``; the first ``reused`` of them come from the attempt before."""
    default = StopReason.SUCCESS if success else StopReason.MAX_TURNS
    episode = Episode(
        id=f"{task}/{index}/{states}",
        task=Task(task, "toy"),
        stop=stop or default,
        success=None if stop else success,
        attempt=Attempt(index, (), task),
        forked_from=Fork("before", reused) if reused else None,
    )
    for number, state in enumerate(states):
        turn = Turn(number, Observation("", None, None if state == "?" else state), reused=number < reused)
        episode.turns.append(turn)
    episode.turns[-1].reward = float(success) if reward is None else reward
    return episode


CHAINS = [
    [
        attempt("a", "abcd"),
        attempt("a", "abxy", reused=2, index=1),
        attempt("a", "az", success=True, reused=1, index=2),
    ],
    [attempt("b", "ab", success=True)],
    [attempt("c", "abc"), attempt("c", "abd", reused=2, index=1, success=True)],
    [attempt("d", "abc"), attempt("d", "abd", index=1), attempt("d", "abe", index=2)],
]


def test_success_within_k_attempts() -> None:
    rates = [success_at(CHAINS, k) for k in (1, 2, 3, 4)]
    assert [rate.mean for rate in rates] == [0.25, 0.5, 0.75, 0.75]
    assert all(rate.n == 4 for rate in rates)
    with pytest.raises(ValueError, match="at least 1"):
        success_at(CHAINS, 0)


def test_what_it_cost() -> None:
    summary = summarise_chains(CHAINS, 3)
    assert summary.attempts.mean == (3 + 1 + 2 + 3) / 4
    assert summary.interactions.mean == ((4 + 2 + 1) + 2 + (3 + 1) + 9) / 4
    assert summary.retry_ratio.mean == pytest.approx((2 / 4 + 1 / 2 + 1 / 3 + 1 + 1) / 5)
    assert list(summary.success_at) == [1, 2, 3]
    assert summarise_chains(CHAINS[1:2], 3).retry_ratio is None


def test_attempts_without_an_outcome_are_no_failures() -> None:
    broken = [attempt("e", "ab"), attempt("e", "ab", index=1, stop=StopReason.ENV_ERROR)]
    assert success_at([broken, *CHAINS], 1).n == 5
    assert success_at([broken, *CHAINS], 2).n == 4
    won = [*broken, attempt("e", "ab", index=2, success=True)]
    assert success_at([won], 2) is None
    assert success_at([won], 3).mean == 1.0
    assert list(summarise_chains([broken], 2).success_at) == [1]


def test_attempts_after_a_success_do_not_count() -> None:
    independent = [
        attempt("f", "ab"),
        attempt("f", "abc", success=True, index=1),
        attempt("f", "abcd", index=2),
    ]
    assert until_success(independent) == independent[:2]
    assert summarise_chains([independent], 3).interactions.mean == 5
    assert until_success(independent[:1]) == independent[:1]


def test_preference_groups_are_states_with_different_outcomes() -> None:
    preferred, compared = preference_groups([episode for chain in CHAINS for episode in chain])
    # a: turn 2 (c against x) differs in state; turn 1 of the third attempt is z. c: turn 2 is c against d.
    assert preferred == {}
    assert compared == {0: 1, 1: 1}  # task d: full restarts
    same = [attempt("g", "abc"), attempt("g", "abc", reused=2, index=1, success=True)]
    assert preference_groups(same) == ({2: 1}, {2: 1})
    again = [attempt("g", "abc"), attempt("g", "abc", index=1, success=True)]
    assert preference_groups(again) == ({0: 1, 1: 1, 2: 1}, {0: 1, 1: 1, 2: 1})


def test_what_does_not_make_a_preference_group() -> None:
    def groups(*episodes):
        return preference_groups(episodes)[0]

    lost, won = attempt("g", "ab"), attempt("g", "ab", success=True)
    assert groups(lost, attempt("g", "ab")) == {}
    assert groups(lost, attempt("h", "ab", success=True)) == {}
    assert groups(lost, attempt("g", "xa", success=True)) == {}
    assert groups(attempt("g", "??"), attempt("g", "??", success=True)) == {}
    assert groups(won, attempt("g", "ab", stop=StopReason.TIME_OUT, reward=0.0)) == {}
    assert groups(won, attempt("g", "ab", success=True, reward=1.0 + 1e-12)) == {}
    assert preference_groups([won, lost], outcome=lambda episode: 3.0)[0] == {}


def test_the_summary_is_plain_json() -> None:
    data = json.loads(json.dumps(summarise_chains(CHAINS, 3).as_dict()))
    assert data["success_at"]["3"]["mean"] == 0.75
    assert data["preference_groups"] == {"total": 0, "by_turn": {}, "compared_by_turn": {"0": 1, "1": 1}}
    with pytest.raises(ValueError, match="at least one"):
        summarise_chains([], 3)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=6))
def test_success_never_falls_with_more_attempts(outcomes) -> None:
    chains = [
        [attempt(str(n), "ab", success=won, index=i) for i, won in enumerate(chain)]
        for n, chain in enumerate(outcomes)
    ]
    rates = [success_at(chains, k).mean for k in range(1, 6)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(sum(chain[0] for chain in outcomes) / len(outcomes))
    assert rates[-1] == pytest.approx(sum(map(any, outcomes)) / len(outcomes))


def test_chains_are_found_again_in_a_flat_list() -> None:
    flat = [episode for chain in CHAINS for episode in reversed(chain)]
    assert chains_of(flat) == CHAINS
    alone = [Episode("x", Task("t", "toy")), Episode("y", Task("t", "toy"))]
    assert chains_of(alone) == [[alone[0]], [alone[1]]]
