from __future__ import annotations

import math

import pytest

from turnpoint.inspector.signals import mean_advantage, teacher_gap, terms_of, token_signals, why_untrained
from turnpoint.records import Observation, Turn


def turn(**scores: tuple[float, ...]) -> Turn:
    return Turn(0, Observation("o"), response_ids=(1, 2), logprobs=(-1.0, -2.0), scores=scores)


def test_gaps_are_log_prob_differences() -> None:
    scored = turn(teacher=(-0.5, -3.0), advantage=(0.25, 0.75))
    signals = token_signals(scored)
    assert list(signals)[:2] == ["advantage", "gap: teacher"]
    assert list(signals["gap: teacher"]) == [0.5, -1.0]
    assert teacher_gap(scored) == pytest.approx(-0.25)
    assert mean_advantage(scored) == 0.5


def test_terms_stand_in_for_a_gap_that_was_not_recorded() -> None:
    scored = turn(preventive=(0.1, 0.3), lesson=(0.0, 0.2), mask=(1.0, 0.0), weight=(5.0, 5.0))
    assert teacher_gap(scored) == pytest.approx(0.3)
    assert terms_of(scored) == {"preventive": 2, "lesson": 1}


def test_signals_that_are_too_long_or_absent_are_not_shown() -> None:
    assert token_signals(turn(advantage=(1.0, 1.0, 1.0))) == {}
    assert teacher_gap(turn()) is None
    assert mean_advantage(turn(advantage=(math.inf, 0.0))) is None


def test_why_a_turn_does_not_train() -> None:
    reused = turn(advantage=(1.0, 1.0))
    reused.reused = True
    assert "earlier episode" in why_untrained(reused, credited=True)
    assert why_untrained(turn(), credited=True) == "no row was made of this turn"
    assert why_untrained(Turn(0, Observation("o")), credited=True) == "nothing was sampled"
    assert why_untrained(turn(), credited=False) == ""
    assert why_untrained(turn(advantage=(0.0, 0.0)), credited=True) == ""


def test_a_signal_may_cover_the_first_tokens_only() -> None:
    scored = turn(teacher=(-0.5,), advantage=(2.0,))
    signals = token_signals(scored)
    assert list(signals["gap: teacher"]) == [0.5, None]
    assert list(signals["advantage"]) == [2.0, None]
    assert teacher_gap(scored) == 0.5
    assert mean_advantage(scored) == 2.0
    assert why_untrained(scored, credited=True) == "the last 1 tokens: the method trains the first 1 only"
