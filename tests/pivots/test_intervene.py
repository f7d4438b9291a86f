from __future__ import annotations

import asyncio

import pytest

from turnpoint.pivots.intervene import HintedTurn, OracleTurn, OwnTurn, TypedTurn, adopt, prepare
from turnpoint.records import RecordError, StopReason
from turnpoint.rollouts import Start
from turnpoint.testing import replay_suite, toy_suite

from .tools import agent, lost_key


def prepared(turn: int, *taken, suite=None):
    rollouts, _ = agent(suite or toy_suite(rooms=2, max_turns=12))
    return asyncio.run(prepare(rollouts, lost_key(), turn, taken))


@pytest.mark.parametrize("make", [toy_suite, replay_suite])
def test_a_typed_action_takes_over(make) -> None:
    episode = prepared(3, TypedTurn("open chest"), suite=make(rooms=2, max_turns=12))
    assert [t.executed for t in episode.turns] == ["switch on lamp", "take key", "go right", "open chest"]
    assert [t.reused for t in episode.turns] == [True, True, True, False]
    assert episode.stop == StopReason.SUCCESS
    assert episode.success


def test_the_oracle_takes_its_best_action_and_says_so() -> None:
    episode = prepared(3, OracleTurn())
    assert episode.turns[3].gold_actions == ("open chest",)
    assert episode.success


def test_an_oracle_that_is_not_there_is_refused() -> None:
    with pytest.raises(RecordError, match="has no oracle to take turns"):
        prepared(3, OracleTurn(), suite=toy_suite(rooms=2, max_turns=12, oracle=False))


def test_where_the_oracle_knows_nothing_the_policy_goes_on() -> None:
    episode = prepared(4, OracleTurn(), OracleTurn())
    assert len(episode.turns) == 6
    assert all(t.response_ids for t in episode.turns[4:])
    assert episode.stop is None


def test_hinted_and_own_turns_are_sampled() -> None:
    episode = prepared(2, HintedTurn("wait"), OwnTurn())
    assert episode.turns[2].executed == "wait"
    assert "wait" in episode.turns[2].hint
    assert episode.turns[3].hint is None
    assert "wait" not in episode.turns[2].messages[-1].content.split("Admissible")[0]


def test_distances_go_on_over_the_fork() -> None:
    episode = prepared(3, TypedTurn("wait"))
    assert episode.distances_known
    assert [t.distance for t in episode.turns] == [4, 3, 2, 1]
    assert episode.final_distance == 1


def test_nothing_follows_the_end() -> None:
    episode = prepared(3, TypedTurn("open chest"), TypedTurn("wait"))
    assert len(episode.turns) == 4


def test_the_turn_budget_holds() -> None:
    episode = prepared(3, *[TypedTurn("wait")] * 9, suite=toy_suite(rooms=2, max_turns=5))
    assert (len(episode.turns), episode.stop) == (5, StopReason.MAX_TURNS)


def test_a_state_that_cannot_be_brought_back_ends_the_episode() -> None:
    rollouts, _ = agent(toy_suite(rooms=3))
    parent = lost_key()
    episode = asyncio.run(prepare(rollouts, parent, 3, [OwnTurn()]))
    assert episode.stop == StopReason.RESTORE_MISMATCH
    assert "differs" in episode.error
    with pytest.raises(RecordError, match="no state before turn 99"):
        asyncio.run(prepare(rollouts, parent, 99))


def test_a_branch_belongs_to_the_recorded_parent() -> None:
    rollouts, _ = agent(toy_suite(rooms=2, max_turns=12))
    parent = lost_key()

    async def go():
        now = await prepare(rollouts, parent, 2, [TypedTurn("wait")])
        later = await rollouts.play(parent.task, 0, start=Start(now, len(now.turns)))
        return adopt(later, now)

    branch = asyncio.run(go())
    assert (branch.forked_from.episode, branch.forked_from.turn) == ("lost", 2)
    assert [t.reused for t in branch.turns[:3]] == [True, True, False]
