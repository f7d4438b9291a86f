from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from turnpoint.pivots.recovery import Mistake, first_mistakes, paired, recovery_report, replay_mistakes
from turnpoint.records import Attempt, Episode, EpisodeKind, Observation, RecordError, StopReason, Task, Turn
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

from .tools import path


def outcome(success: bool | None, turns: int = 3) -> Episode:
    stop = StopReason.TIME_OUT if success is None else StopReason.SUCCESS if success else StopReason.MAX_TURNS
    return Episode("r", Task("t", "toy"), [Turn(i, Observation("o")) for i in range(turns)], stop, success)


def mistake(name: str) -> Mistake:
    return Mistake(Episode(name, Task(name, "toy")), 1, 2)


def test_mean_is_taken_per_mistake_then_over_mistakes() -> None:
    replays = [[outcome(i < 2) for i in range(8)], [outcome(i < 4) for i in range(8)]]
    report = recovery_report([mistake("a"), mistake("b")], replays)
    assert report.rate.mean == pytest.approx(0.375)
    assert report.within[2] == 0
    assert report.within[3] == pytest.approx(6 / 16)
    assert report.turns.mean == 3
    assert report.optimal == 2


def test_a_mistake_weighs_the_same_however_many_of_its_replays_have_an_outcome() -> None:
    often = [outcome(True, 2)] * 4
    rarely = [outcome(False), *[outcome(None)] * 3]
    report = recovery_report([mistake("a"), mistake("b")], [often, rarely])
    assert report.within == [0, 0, 0.5]
    assert report.within[-1] == report.rate.mean


def test_replays_of_one_mistake_are_not_independent() -> None:
    replays = [[outcome(True, turns)] * 50 for turns in (2, 3, 6, 9)]
    turns = recovery_report([mistake(n) for n in "abcd"], replays).turns
    assert turns.mean == 5
    assert turns.high - turns.low > 3


def test_replays_without_outcome_are_counted_apart() -> None:
    report = recovery_report([mistake("a")], [[outcome(True), outcome(None)]])
    assert report.rate.mean == 1
    assert report.excluded == {"time_out": 1}
    with pytest.raises(RecordError, match="no replay has an outcome"):
        recovery_report([mistake("a")], [[outcome(None)]])


def test_every_episode_without_a_mistake_is_counted() -> None:
    retry, branch = path([2, 3, 3], "retry"), path([2, 3, 3], "branch")
    retry.attempt, branch.kind = Attempt(1, ("look first",), "chain"), EpisodeKind.RECOVERY
    cut = path([2, 3, 3], "cut")
    cut.stop, cut.success = StopReason.TIME_OUT, None
    episodes = [
        path([2, 3, 3], "good"), retry, branch, cut, path([2, 1, 0], "won", success=True), path([2, 2, 2], "idle"),
        path([2, 2, 3], "late"), path([2, None, None], "lost"),
    ]  # fmt: skip
    left_out: Counter[str] = Counter()
    found = first_mistakes(episodes, undoable_only=True, left_out=left_out)
    assert [mistake.episode.id for mistake in found] == ["good"]
    assert left_out == {
        "attempt after the first": 1, "kind: recovery": 1, "no outcome: time_out": 1, "solved": 1,
        "failed without an oracle pivot": 1, "oracle pivot on the last turn": 1, "cannot be undone": 1,
    }  # fmt: skip


def test_mistakes_of_equal_ids_stay_apart() -> None:
    """Evaluations of several steps play the same tasks under the same ids."""
    found = first_mistakes(
        [path([2, 3, 3], "eval/t/0"), path([2, 3, 3], "eval/t/0"), path([2, 2, 3, 3], "eval/t/0")]
    )
    assert [mistake.name for mistake in found] == ["eval/t/0#0", "eval/t/0~2#0", "eval/t/0#1"]
    report = recovery_report(found, [[outcome(True)], [outcome(False)], [outcome(False)]])
    assert report.per_mistake == {"eval/t/0#0": 1.0, "eval/t/0~2#0": 0.0, "eval/t/0#1": 0.0}


def test_pairs_are_compared_mistake_by_mistake() -> None:
    names = [mistake(n) for n in "abc"]
    base = recovery_report(names, [[outcome(False)], [outcome(True)], [outcome(True)]])
    other = recovery_report(names, [[outcome(True)], [outcome(False)], [outcome(True)]])
    assert paired(base, other) == {"improved": 1, "worse": 1, "same": 1, "unpaired": 0}


def test_replays_keep_the_mistake_and_the_rest_of_the_budget() -> None:
    suite = toy_suite(max_turns=12)
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()), measure=True)

    async def go():
        played = await asyncio.gather(*(rollouts.play(t, 0) for t in suite.tasks("train")[:30]))
        found = first_mistakes(played)
        return found, await replay_mistakes(rollouts, found, 3)

    found, replays = asyncio.run(go())
    assert found
    assert all(not m.episode.success for m in found)
    for m, episodes in zip(found, replays, strict=True):
        assert len({tuple(t.executed for t in e.turns) for e in episodes}) > 1
        for episode in episodes:
            assert [t.executed for t in episode.turns[: m.turn + 1]] == [
                t.executed for t in m.episode.turns[: m.turn + 1]
            ]
            assert len(episode.turns) <= 12
            assert episode.new_turns
            if m.remaining is None:
                assert not episode.success
