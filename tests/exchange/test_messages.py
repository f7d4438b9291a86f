from __future__ import annotations

from typing import Any

import pytest

from turnpoint.exchange import ExchangeReport
from turnpoint.exchange.messages import episode_of, outcome
from turnpoint.records import Episode, StopReason


def ended(**options: Any) -> Episode:
    return episode_of("e", [{"role": "assistant", "content": "a"}], ExchangeReport(), env="x", **options)


@pytest.mark.parametrize("stop", [reason for reason in StopReason if not reason.has_outcome])
def test_an_ending_without_an_outcome_makes_no_failure_of_the_reward(stop: StopReason) -> None:
    for reward in (None, 0.0, 1.0):
        episode = ended(stop=stop.value, reward=reward)
        assert (episode.stop, episode.success) == (stop, None)
    assert ended(stop=stop.value, success=True).stop == StopReason.SUCCESS


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("context_limit", StopReason.CONTEXT_LIMIT),
        ("max_turns", StopReason.MAX_TURNS),
        ("max_turns_reached", StopReason.MAX_TURNS),
        ("length", StopReason.MAX_TURNS),
        ("message_limit", StopReason.MAX_TURNS),
        ("Truncated", StopReason.MAX_TURNS),
        ("context_length_exceeded", StopReason.MAX_TURNS),
        ("returned", StopReason.FAILURE),
        ("end_turn", StopReason.FAILURE),
        ("climax", StopReason.FAILURE),
        ("", StopReason.FAILURE),
    ],
)
def test_words_for_a_cut_off(word: str, stop: StopReason) -> None:
    episode = ended(stop=word, reward=0.0)
    assert (episode.stop, episode.success) == (stop, False)
    assert episode.turns[-1].done == (stop == StopReason.FAILURE)
    assert ended(stop=word, reward=1.0).success
    assert ended(stop=word).success is None


def test_an_error_leaves_no_outcome_unless_there_is_one() -> None:
    episode = ended(error="boom", reward=0.0)
    assert (episode.stop, episode.success, episode.error) == (StopReason.ENV_ERROR, None, "boom")
    assert ended(error="boom", stop="time_out", reward=0.0).stop == StopReason.TIME_OUT
    assert ended(error="boom", success=False).stop == StopReason.FAILURE


def test_outcomes_as_other_tools_write_them() -> None:
    report = ExchangeReport()
    told = [True, 1, 1.0, "true", " True ", 2, False, 0, 0.3, "false", None, "", [1], float("nan")]
    assert [outcome(value, report) for value in told] == [True] * 6 + [False] * 4 + [None] * 4
    assert report.changed == {"outcome that is neither a truth value nor a number": 3}
