"""Options beyond the paper: off they leave no trace; together they train, conserve tokens and resume."""

from __future__ import annotations

import json

import pytest

from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.records import RowKind
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.testing import replay_suite, toy_suite

OPTIONS = {
    "consistency": {"samples": 3, "min_agreement": 0.5},
    "verify": {"level": "moves"},
    "reliability": {"weigh": True, "per_step": 8},
    "recovery_ratio": {},
    "adaptive_turns": {"min_branches": 4, "patience": 1},
}


def erring(suite):
    settings = {"knowledge": "full", "error": {"actions": 0.3, "turns": 0.1}}
    return OracleTeacherSettings.model_validate(settings).build(suite)


def test_off_they_have_no_state_and_no_metric(play, scripted_teacher) -> None:
    played = play(PivotOPDSettings(group=2), teacher=scripted_teacher())
    assert played.method.state_dict() == {}
    names = ("agreement", "verify", "reliability", "w_rec", "recovery_ratio", "recovery_turns", "recovered_")
    assert not [name for name in played.tally if name.startswith(names)]
    turns = [turn for g in played.groups for b in g.branches for turn in b.turns]
    assert turns
    assert not any("weight" in turn.scores for turn in turns)
    assert not any(b.info for g in played.groups for b in g.branches)
    assert {p.score for g in played.groups for e in g.episodes for p in e.pivots} == {None}


@pytest.mark.parametrize("suite", [toy_suite(), replay_suite()], ids=["snapshots", "replay"])
def test_together_they_train_and_resume(stepper, suite) -> None:
    settings = PivotOPDSettings(group=4, w_prev=0.01, max_recoveries=6, **OPTIONS)
    whole = stepper(settings, teacher=erring(suite), suite=suite)
    steps = [whole.step() for _ in range(3)]  # each checks that no token is lost
    assert sum(row.kind == RowKind.RECOVERY for played in steps for row in played.rows) > 5
    state = None
    for number in range(3):
        part = stepper(settings, teacher=erring(suite), suite=suite)
        if state is not None:
            part.method.load_state_dict(json.loads(json.dumps(state)))
        again = part.step(number)
        state = part.method.state_dict()
        assert [r.advantages.tobytes() for r in again.rows] == [
            r.advantages.tobytes() for r in steps[number].rows
        ]
        assert again.tally == steps[number].tally
    assert state == whole.method.state_dict()
    assert set(state["beyond"]) == {"reliability", "recovery_ratio", "adaptive_turns"}


def test_an_option_taken_up_later_begins_anew(stepper, scripted_teacher) -> None:
    before = stepper(PivotOPDSettings(group=2, recovery_ratio={}), teacher=scripted_teacher())
    before.step()
    later = PivotOPDSettings(group=2, recovery_ratio={}, adaptive_turns={}).build()
    later.load_state_dict(before.method.state_dict())
    assert later.beyond.recovery_turns == 2
    assert later.beyond.ratio.state_dict() == before.method.beyond.ratio.state_dict()
    without = PivotOPDSettings(group=2).build()
    without.load_state_dict(before.method.state_dict())
    assert without.state_dict() == {}


def test_options_are_not_checked_where_nothing_is_distilled(play) -> None:
    played = play(PivotOPDSettings(group=2, w_prev=0, w_traj=0, recovery_turns=0, verify={}, consistency={}))
    assert played.rows


@pytest.mark.parametrize(
    "ablation", ["random_turns", "hints_without_gold", "reverse_kl_recovery", "recovery_only"]
)
def test_ablations_go_with_them(play, scripted_teacher, ablation) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "recovery_ratio"}
    played = play(PivotOPDSettings(group=4, ablation=ablation, **options), teacher=scripted_teacher())
    dropped = sum(value for name, value in played.tally.items() if name.startswith("dropped_tokens/"))
    assert sum(len(row.response_ids) for row in played.rows) + dropped == played.sampled
