"""Named turns and actions judged by the oracle: shares, their use as weights, and what is kept for a resumed run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.reliability import Reliability, ReliabilitySettings
from turnpoint.methods.tally import Tally
from turnpoint.records import RowKind
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.teachers.protocol import teacher_label
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import random_agent

SUITE = toy_suite()


def oracle(**settings):
    return OracleTeacherSettings.model_validate(settings).build(SUITE)


@pytest.mark.parametrize("knowledge", ["observed", "full"])
def test_an_exact_oracle_is_always_right(play, knowledge) -> None:
    settings = PivotOPDSettings(group=4, reliability={"knowledge": knowledge, "prior": (1e-9, 1e-9)})
    played = play(settings, teacher=oracle(knowledge=knowledge), suite=SUITE)
    for kind in ("turn", "action", "used", "recovery"):
        assert played.tally[f"reliability/{kind}"] == pytest.approx(1.0)
        assert played.tally[f"reliability_judged/{kind}"] >= 10
    assert played.tally["reliability/states_asked"] > 0


def test_errors_show_in_the_estimates(play) -> None:
    settings = PivotOPDSettings(group=8, recovery_turns=1, reliability={"knowledge": "full"})
    erring = {"knowledge": "full", "error": {"actions": 0.4}}
    tally = play(settings, teacher=oracle(**erring), suite=SUITE, tasks=4).tally
    assert tally["reliability_low/action"] < 0.6 < tally["reliability_high/action"]
    assert tally["reliability_low/recovery"] < 0.6 < tally["reliability_high/recovery"]
    assert tally["reliability/turn"] > 0.95
    assert {name for name in tally if name.startswith("reliability_by_type/action/")} == {
        "reliability_by_type/action/carry",
        "reliability_by_type/action/here",
    }


def test_only_so_many_are_judged_in_a_step(play) -> None:
    settings = PivotOPDSettings(group=8, recovery_turns=1, reliability={"per_step": 5})
    tally = play(settings, teacher=oracle(), suite=SUITE).tally
    assert tally["pivots_named"] > 5
    assert tally["reliability_judged/turn"] == tally["reliability_judged/recovery"] == 5


def test_weights_follow_the_estimates(play, scripted_teacher) -> None:
    """Of a teacher that names the last admissible action, every term is as strong as its words are reliable."""
    common = {"group": 4, "w_prev": 0.3, "w_traj": 0.0, "recovery_turns": 1}
    names = {"teacher": scripted_teacher(), "script": random_agent(), "suite": SUITE}
    base = play(PivotOPDSettings(**common | {"w_prev": 0.0}), **names)
    once = play(PivotOPDSettings(**common), **names)
    weighed = play(
        PivotOPDSettings(**common, reliability={"weigh": True, "min_judged": 10_000, "knowledge": "full"}),
        **names,
    )
    shares = {
        RowKind.ACT: weighed.tally["reliability/used"],
        RowKind.RECOVERY: weighed.tally["reliability/recovery"],
    }
    assert all(0.02 < share < 0.9 for share in shares.values())
    for zero, a, b in zip(base.rows, once.rows, weighed.rows, strict=True):
        start = zero.advantages if zero.kind == RowKind.ACT else np.zeros(len(a.advantages))
        np.testing.assert_allclose(b.advantages - start, shares[a.kind] * (a.advantages - start), atol=1e-12)


def test_a_task_type_has_its_own_estimate_once_enough_was_judged() -> None:
    known = Reliability(ReliabilitySettings(min_judged=10), Tally())
    assert known.share("oracle", "action", "heat") == 0.5
    known.load_state_dict({"oracle": {"heat": {"action": [0, 8]}, "cool": {"action": [8, 8]}}})
    assert known.share("oracle", "action", "heat") == known.share("oracle", "action", "cool") == 9 / 18
    known.load_state_dict({"oracle": {"heat": {"action": [0, 10]}, "cool": {"action": [10, 10]}}})
    assert known.share("oracle", "action", "heat") == 1 / 12
    assert known.share("oracle", "action", "cool") == 11 / 12
    assert known.share("another", "action", "heat") == 0.5


def test_old_counts_fade_and_state_survives_json(stepper) -> None:
    settings = PivotOPDSettings(group=2, recovery_turns=0, reliability={"keep": 0.5})
    steps = stepper(settings, teacher=oracle(error={"actions": 0.4}), suite=SUITE)
    first = steps.step()
    state = json.loads(json.dumps(steps.method.state_dict()))
    second = steps.step()
    assert second.tally["reliability_judged/turn"] == (
        first.tally["reliability_judged/turn"] / 2 + second.tally["pivots_named"]
    )
    resumed = stepper(settings, teacher=oracle(error={"actions": 0.4}), suite=SUITE)
    resumed.method.load_state_dict(state)
    again = resumed.step(1)
    assert again.tally == second.tally
    assert resumed.method.state_dict() == steps.method.state_dict()
    assert list(state["beyond"]["reliability"]) == ["oracle"]


def test_labels_tell_teachers_apart(scripted_teacher) -> None:
    assert teacher_label(oracle()) == "oracle"
    assert teacher_label(scripted_teacher()) == "ScriptedTeacher"


def test_without_an_oracle_it_is_refused(play) -> None:
    with pytest.raises(ConfigError, match=r"method\.reliability to null"):
        play(PivotOPDSettings(group=2, reliability={}), teacher=object(), suite=toy_suite(oracle=False))
