"""STRIDE's early stop as a part of methods that learn from outcomes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.records import RowKind, StopReason
from turnpoint.testing import toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring

STOP = {"lambda": -3.0}


def odd_ones_fail(episode, turn):
    """Episodes with an odd number leave the teacher's support at their third turn."""
    return -0.1 if int(episode.id.rsplit("/", 1)[1]) % 2 == 0 else -1.4


def episodes_of(played):
    return [e for g in played.groups for e in g.episodes]


@pytest.mark.parametrize("settings", [GRPOSettings, PivotOPDSettings])
def test_without_the_part_no_scoring_teacher_is_needed(settings) -> None:
    assert not settings().asks_scoring
    assert settings(stop=STOP).asks_scoring


def test_grpo_leaves_stopped_episodes_out_of_baseline_and_training(play) -> None:
    suite = toy_suite(rooms=3)
    played = play(GRPOSettings(group=6, stop=STOP), scoring=ScriptedScoring(odd_ones_fail), suite=suite)
    stopped = [e for e in episodes_of(played) if e.stop == StopReason.OUT_OF_SUPPORT]
    assert stopped
    assert {len(e.turns) for e in stopped} == {3}
    assert not {e.id for e in stopped} & {row.episode for row in played.rows}
    assert played.tally["dropped_tokens/out_of_support"] == sum(e.generated_tokens for e in stopped)
    by_episode = {row.episode: row.advantages[0] for row in played.rows}
    for group in played.groups:
        judged = [e for e in group.episodes if e.stop.has_outcome]
        scores = np.array([e.total_reward for e in judged])
        expected = (scores - scores.mean()) / (scores.std(ddof=1) + 1e-6) if np.ptp(scores) else scores * 0
        np.testing.assert_allclose([by_episode[e.id] for e in judged], expected)
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/out_of_support"] == played.sampled


def test_pivotopd_still_distils_on_stopped_episodes(play, scripted_teacher) -> None:
    settings = PivotOPDSettings(group=4, w_prev=0.3, w_traj=0.0, recovery_turns=1, stop=STOP)
    played = play(settings, teacher=scripted_teacher(), scoring=ScriptedScoring(odd_ones_fail))
    stopped = {e.id for e in episodes_of(played) if e.stop == StopReason.OUT_OF_SUPPORT}
    acts = [row for row in played.rows if row.kind == RowKind.ACT and row.episode in stopped]
    assert {row.turn for row in acts if row.advantages.any()} == {1}  # turn 3 does not exist any more
    assert {row.turn for row in acts} == {0, 1, 2}
    assert any(
        row.kind == RowKind.RECOVERY and row.episode.split("/recovery")[0] in stopped for row in played.rows
    )


def test_a_generous_threshold_changes_nothing(play) -> None:
    plain = play(GRPOSettings(group=4))
    ours = play(GRPOSettings(group=4, stop={"lambda": -1e9}), scoring=ScriptedScoring())
    assert [r.advantages.tobytes() for r in ours.rows] == [r.advantages.tobytes() for r in plain.rows]
    assert [r.response_ids for r in ours.rows] == [r.response_ids for r in plain.rows]


def test_calibration_is_kept_with_the_method(stepper) -> None:
    settings = GRPOSettings(group=8, stop={"lambda": "auto", "calibration": {"episodes": 2, "turns": 3}})

    def new():
        return stepper(settings, scoring=ScriptedScoring(lambda e, t: -0.5), suite=toy_suite(rooms=2))

    run, again = new(), new()
    assert run.step().tally["lambda/default"] == pytest.approx(-1.5)
    again.method.load_state_dict(json.loads(json.dumps(run.method.state_dict())))
    again.steps = 1
    stops = [[e.stop for e in episodes_of(r.step())] for r in (run, again)]
    assert stops[0] == stops[1]
    assert StopReason.OUT_OF_SUPPORT in stops[0]
    assert GRPOSettings().build().state_dict() == {}


@pytest.mark.parametrize("settings", [GRPOSettings, PivotOPDSettings])
@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ({"lambda": -9.0, "unit": "token"}, "set stop.unit: turn"),
        ({"lambda": float("-inf")}, "never stops"),
        ({"lambda": 0.5}, "set a number below 0"),
    ],
)
def test_combinations_that_make_no_sense(settings, stop, message) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(stop=stop)


def test_a_missing_scoring_teacher_is_named() -> None:
    with pytest.raises(ConfigError, match=r"set scoring\.kind"):
        GRPOSettings(stop=STOP).check(toy_suite().capabilities, Teachers())
