from __future__ import annotations

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.credit import sod_step_weights
from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.sod import SODSettings, step_divergence
from turnpoint.records import Observation, Turn
from turnpoint.teachers.protocol import TeacherError, TeacherFailure
from turnpoint.testing.scripted_scoring import ScriptedScoring


def wavering(episode, turn):
    """Turns near to the student, farther, and farthest."""
    return (-0.05, -1.0, -2.5)[turn.index % 3]


def test_worked_numbers_with_the_methods_defaults() -> None:
    s = SODSettings()
    weights = sod_step_weights([0.2, 0.4, 0.1, 0.4], cap=s.cap, epsilon=s.epsilon)
    np.testing.assert_allclose(weights, [1, 0.5, 1.5, 0.5], atol=1e-6)


def test_each_step_is_weighted_by_how_far_it_drifted(easy) -> None:
    sod = easy(SODSettings(group=2, coef=0.5), scoring=ScriptedScoring(wavering))
    opd = easy(OPDSettings(group=2, coef=0.5), scoring=ScriptedScoring(wavering))
    plain = {(row.episode, row.turn): row for row in opd.rows}
    weights_seen = set()
    for group in sod.groups:
        for episode in group.episodes:
            gaps = [np.array(t.scores["teacher"]) - np.array(t.logprobs) for t in episode.turns]
            divergences = [np.mean(np.exp(gap) - 1 - gap) for gap in gaps]
            product = 1.0
            for k, row in enumerate(r for r in sod.rows if r.episode == episode.id):
                if k:
                    product *= (divergences[k - 1] + 1e-8) / (divergences[k] + 1e-8)
                weight = min(product, 1.5)
                weights_seen.add(round(weight, 6))
                expected = weight * plain[row.episode, row.turn].advantages
                np.testing.assert_allclose(row.advantages, expected, rtol=1e-9)
    assert len(weights_seen) > 3
    assert 1.5 in weights_seen
    assert sum(len(row.response_ids) for row in sod.rows) == sod.sampled
    assert 0 < sod.tally["step_weight"] <= 1.5


def test_a_teacher_equal_to_the_student_gives_exactly_zero(easy) -> None:
    played = easy(SODSettings(group=2), scoring=ScriptedScoring())
    assert played.rows
    assert not any(row.advantages.any() for row in played.rows)


def test_divergence_is_the_k3_estimate_and_never_infinite() -> None:
    def turn(teacher, student):
        return Turn(0, Observation(""), logprobs=tuple(student), scores={"teacher": tuple(teacher)})

    assert step_divergence(turn([-0.5, -1.0], [-0.5, -1.0])) == 0.0
    assert step_divergence(turn([-1.0], [-2.0])) == pytest.approx(np.e - 2)
    assert step_divergence(turn([-2.0], [-1.0])) == pytest.approx(np.exp(-1))
    assert np.isfinite(step_divergence(turn([-1.0], [-1000.0])))


def test_episodes_that_the_teacher_failed_on_are_dropped_and_counted(easy) -> None:
    def values(episode, turn):
        if episode.id.endswith("/1"):
            raise TeacherError(TeacherFailure.TIME_OUT, "late")
        return -1.0

    played = easy(SODSettings(group=2), scoring=ScriptedScoring(values))
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/teacher_failed"] == played.sampled
    assert played.tally["dropped_tokens/teacher_failed"] > 0


def test_it_needs_a_scoring_teacher(easy) -> None:
    with pytest.raises(ConfigError, match=r"scoring\.kind"):
        easy(SODSettings(group=2))
