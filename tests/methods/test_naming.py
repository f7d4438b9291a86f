"""A gold action that was taken anyway names no pivot, whatever its spelling and whichever method asked."""

from __future__ import annotations

from collections import Counter

import pytest

from turnpoint.methods.naming import keep_pivot
from turnpoint.methods.opid import OPIDSettings
from turnpoint.methods.opsd import OPSDSettings
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Observation, Pivot, Task, Turn


def kept(
    gold: str, taken: str, admissible: tuple[str, ...] | None, *, valid: bool = True
) -> tuple[Pivot, dict[str, float]]:
    action = taken if valid else None
    turn = Turn(0, Observation("", admissible=admissible), action=action, executed=taken)
    assert turn.valid is valid
    episode, tally, pivot = Episode("e", Task("t", "toy", ""), [turn]), Tally(), Pivot(0, "teacher", gold)
    keep_pivot(episode, pivot, tally)
    assert episode.pivots == [pivot]
    return pivot, tally.take()


@pytest.mark.parametrize(
    ("gold", "taken", "admissible", "resolved"),
    [
        ("go left", "go right", ("go left", "go right"), "go left"),
        ("Go  left", "go right", ("go left", "go right"), "go left"),
        ("go left", "go left", ("go left", "go right"), None),
        ("go to the left", "Go to left", ("go to left", "go to right"), None),
        ("(3,4)", "3 4", ("(3, 4)", "(4, 3)"), None),
        ("up,up", "up, up", ("up", "up, up"), None),
        ("fly", "go right", ("go left", "go right"), None),
        ("answer[4]", "Answer[ 4 ]", None, None),
        ("answer[4]", "answer[5]", None, "answer[4]"),
    ],
)
def test_gold_and_taken(
    gold: str, taken: str, admissible: tuple[str, ...] | None, resolved: str | None
) -> None:
    pivot, tally = kept(gold, taken, admissible)
    assert pivot.resolved == resolved
    assert tally["pivots_named"] == 1
    outcome = "used" if resolved else "skipped/unresolved" if gold == "fly" else "skipped/same_action"
    assert tally[f"pivots_{outcome}"] == 1


def test_a_turn_without_an_action_did_not_do_it() -> None:
    assert kept("go left", "go left", ("go left",), valid=False)[0].resolved == "go left"


@pytest.mark.parametrize(
    "settings",
    [
        OPSDSettings(group=2, privileged="gold"),
        OPIDSettings(group=2),
        PivotOPDSettings(group=2, recovery_turns=0),
    ],
    ids=lambda settings: settings.kind,
)
def test_every_method_skips_what_was_done(play, scripted_teacher, settings) -> None:
    class Agreeing(scripted_teacher):
        async def analyse(self, episode, max_pivots):
            report = await super().analyse(episode, max_pivots)
            report.candidates[:] = [
                type(c)(c.turn, episode.turns[c.turn].executed) for c in report.candidates
            ]
            return report

    played = play(settings, teacher=Agreeing())
    outcomes = Counter(
        (episode.turns[p.turn].valid, p.resolved is None)
        for group in played.groups
        for episode in group.episodes
        for p in episode.pivots
    )
    assert outcomes[True, True] > 0
    assert outcomes[True, False] == 0
    assert played.tally["pivots_skipped/same_action"] == outcomes[True, True]
