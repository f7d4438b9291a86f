from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.turnopd import TurnOPDSettings, divergence_by_turn
from turnpoint.records import Episode, Observation, Task, Turn
from turnpoint.testing import toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring


def never_done(prompt: str, seed: int) -> str:
    return "I do not know."


def gap(by_turn):
    """The teacher finds each token less likely by the turn's gap than the student did."""
    return lambda episode, turn: np.asarray(turn.logprobs) - by_turn(turn.index)


def lengths(played):
    return {len(e.turns) for g in played.groups for e in g.episodes}


def test_divergence_and_counts_by_turn() -> None:
    """K=[.5,.4,.2,-.05], n=[8,8,6,2] of the worked numbers, from episodes."""
    gaps = [0.5, 0.4, 0.2, -0.05]
    episodes = []
    for length in [4, 4, 3, 3, 3, 3, 2, 2]:
        turns = [
            Turn(i, Observation(""), response_ids=(1, 2), logprobs=(-1.0, -2.0),
                 scores={"teacher": (-1.0 - gaps[i], -2.0 - gaps[i])})
            for i in range(length)
        ]  # fmt: skip
        episodes.append(Episode("e", Task("t", "toy"), turns))
    divergence, counts = divergence_by_turn(episodes)
    np.testing.assert_allclose(divergence, gaps, atol=1e-12)
    assert counts.tolist() == [8, 8, 6, 2]


def test_probes_set_the_cap_and_come_again(stepper) -> None:
    """Signal at turns 0..3 only: H_eff = round(1.5) = 2, cap 3."""
    settings = TurnOPDSettings(warmup_steps=2, probe_every=3)
    teacher = ScriptedScoring(gap(lambda t: 0.5 if t < 4 else -0.1))
    run = stepper(settings, scoring=teacher, script=never_done)
    turns = [lengths(run.step()) for _ in range(7)]
    assert turns == [{20}, {20}, {3}, {20}, {3}, {3}, {20}]
    assert run.method.state_dict() == {"depth": 2.0}


def test_the_depth_is_a_moving_average(stepper) -> None:
    depths = {0: 4, 1: 12}
    settings = TurnOPDSettings(warmup_steps=2, probe_every=100)
    teacher = ScriptedScoring(
        lambda e, t: np.asarray(t.logprobs) - (1.0 if t.index == depths[e.step] else 0.0)
    )
    run = stepper(settings, scoring=teacher, script=never_done)
    for _ in range(2):
        run.step()
    assert run.method.state_dict()["depth"] == pytest.approx(0.7 * 4 + 0.3 * 12)
    assert run.method.cap == 7


def test_successes_keep_the_cap_wide_enough(stepper) -> None:
    """All signal is at turn 0, but episodes succeed later: 80 % of them must stay possible."""
    suite = toy_suite(rooms=2)
    settings = TurnOPDSettings(warmup_steps=1, group=10)
    teacher = ScriptedScoring(gap(lambda t: 1.0 if t == 0 else 0.0))
    run = stepper(settings, scoring=teacher, suite=suite)
    played = run.step()
    ends = sorted(len(e.turns) - 1 for g in played.groups for e in g.episodes if e.success)
    assert len(ends) >= 8
    expected = ends[int(np.ceil(0.8 * len(ends) - 1e-9)) - 1]
    assert played.tally["depth_coverage"] == expected
    assert played.tally["depth_effective"] == 0
    assert run.method.cap == expected + 1


def test_no_signal_keeps_the_depth_unknown(stepper) -> None:
    run = stepper(TurnOPDSettings(warmup_steps=1), scoring=ScriptedScoring(), script=never_done)
    assert lengths(run.step()) == lengths(run.step()) == {20}
    assert run.method.cap is None


def test_first_step_is_opd_bit_for_bit(stepper) -> None:
    values = gap(lambda t: 0.1 * t)
    ours = stepper(TurnOPDSettings(), scoring=ScriptedScoring(values)).step()
    opd = stepper(OPDSettings(), scoring=ScriptedScoring(values)).step()
    assert [r.advantages.tobytes() for r in ours.rows] == [r.advantages.tobytes() for r in opd.rows]


def test_turn_weights_end_as_equal_shares(stepper) -> None:
    def script(prompt: str, seed: int) -> str:
        return "x" * (1 + seed % 50)

    run = stepper(
        TurnOPDSettings(blend_steps=10, probe_every=1, coef=2.0),
        scoring=ScriptedScoring(gap(lambda t: 0.5)),
        script=script,
    )
    for step, alpha in [(0, 0.0), (5, 0.5), (10, 1.0), (99, 1.0)]:
        played = run.step(step)
        assert played.tally["turn_weight_alpha"] == alpha
        for group in played.groups:
            (episode,) = group.episodes
            n = np.array([len(t.response_ids) for t in episode.turns], dtype=float)
            share = (1 - alpha) * n / n.sum() + alpha / len(n)
            for row in played.rows:
                if row.episode == episode.id:
                    expected = -0.5 * 2.0 * share[row.turn] * n.sum() / n[row.turn]
                    np.testing.assert_allclose(row.advantages, expected, rtol=1e-9)


def test_state_survives_json(stepper) -> None:
    def new():
        return stepper(
            TurnOPDSettings(warmup_steps=1, probe_every=50),
            scoring=ScriptedScoring(gap(lambda t: 1.0 if t < 6 else 0.0)),
            script=never_done,
        )

    whole = new()
    for _ in range(2):
        expected = whole.step()
    half, rest = new(), new()
    half.step()
    rest.method.load_state_dict(json.loads(json.dumps(half.method.state_dict())))
    rest.steps = 1
    got = rest.step()
    assert lengths(got) == lengths(expected) != {20}
    assert [r.advantages.tobytes() for r in got.rows] == [r.advantages.tobytes() for r in expected.rows]


def test_order_of_the_caps() -> None:
    with pytest.raises(ValidationError, match="lowest is 9"):
        TurnOPDSettings(lowest=9, highest=3)
