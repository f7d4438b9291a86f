from __future__ import annotations

import asyncio

import pytest

from turnpoint.pivots.counterfactual import conditions, counterfactual_report, play_conditions
from turnpoint.pivots.recovery import Mistake, first_mistakes
from turnpoint.records import RecordError
from turnpoint.testing import toy_suite

from .tools import agent, lost_key, path, played


def play(mistakes, chosen, replays=2, suite=None, **options):
    rollouts, _ = agent(suite or toy_suite(max_turns=12))

    async def go():
        try:
            return await play_conditions(rollouts, mistakes, chosen, replays, **options)
        finally:
            await rollouts.close()

    return asyncio.run(go()), rollouts


def test_every_condition_starts_where_it_says() -> None:
    mistake = Mistake(lost_key(), 3, None)
    found, _ = play([mistake], conditions((2,)), suite=toy_suite(rooms=2, max_turns=12))
    kept = {name: [t.executed for t in several[0][0].turns if t.reused] for name, several in found.items()}
    actions = [t.executed for t in mistake.episode.turns]
    assert kept["none"] == kept["oracle_after_2"] == actions[:4]
    assert kept["resample"] == kept["oracle_at_pivot"] == actions[:3]
    assert kept["oracle_later"] in (actions[:4], actions[:5])
    assert all(e.success for e in found["oracle_at_pivot"][0])
    assert not any(e.success for e in found["none"][0])
    for several in found.values():
        for episode in several[0]:
            assert episode.forked_from.episode == "lost"
            assert episode.kind.value == "replay"


def test_help_at_the_pivot_is_better_than_none() -> None:
    mistakes = first_mistakes(played(14), undoable_only=True)[:8]
    chosen = [c for c in conditions((8,)) if c.name in ("none", "oracle_after_8")]
    found, rollouts = play(mistakes, chosen, 1)
    report = counterfactual_report(mistakes, chosen, found).as_dict()
    rates = {name: c["success"]["mean"] for name, c in report["conditions"].items()}
    assert rates["oracle_after_8"] > 0.3 > rates["none"]
    assert report["conditions"]["oracle_after_8"]["gain"]["mean"] == pytest.approx(
        rates["oracle_after_8"] - rates["none"]
    )
    assert report["conditions"]["none"]["gain"] is None
    assert rollouts.sampled_tokens > 0


def test_replays_of_a_condition_differ_and_repeat_exactly() -> None:
    mistakes = first_mistakes(played(3))[:2]
    chosen = [c for c in conditions() if c.name == "resample"]
    first, _ = play(mistakes, chosen, 3)
    again, _ = play(mistakes, chosen, 3)
    actions = [[[t.executed for t in e.turns] for e in several] for several in first["resample"]]
    assert actions == [[[t.executed for t in e.turns] for e in several] for several in again["resample"]]
    assert any(len({tuple(a) for a in several}) > 1 for several in actions)


def test_the_mean_is_per_failure_and_without_outcomes_there_is_none() -> None:
    chosen = conditions(())[:2]
    mistakes = [Mistake(path([1, 2, 2], name), 0, 2) for name in "ab"]
    won, lost = path([1, 0], success=True), path([1, 1])
    found = {"none": [[lost], [lost]], "resample": [[won, lost], [won, won]]}
    report = counterfactual_report(mistakes, chosen, found)
    assert report.results[1].success.mean == 0.75
    assert report.results[1].gain.n == 2
    lost.stop = None
    with pytest.raises(RecordError, match="no replay has an outcome"):
        counterfactual_report(mistakes, chosen[:1], {"none": [[lost], [lost]]})


def test_an_environment_without_oracle_is_refused() -> None:
    with pytest.raises(RecordError, match="no oracle"):
        play([Mistake(lost_key(), 3, None)], conditions(), suite=toy_suite(rooms=2, oracle=False))


def test_a_failed_restore_is_counted_not_raised() -> None:
    mistakes, chosen = [Mistake(lost_key(), 3, None)], conditions((1,))[:2]
    found, _ = play(mistakes, chosen, suite=toy_suite(rooms=3))
    assert {str(e.stop) for several in found.values() for e in several[0]} == {"restore_mismatch"}
