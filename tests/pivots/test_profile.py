from __future__ import annotations

import numpy as np
import pytest

from turnpoint.pivots.profile import NO_POSITIONS, TeacherProfile, first_error
from turnpoint.records import Episode, Pivot, Reflection

from .tools import path


def scored(values: list[float], distances: list[int], tokens: int = 4) -> Episode:
    episode = path(distances)
    for turn, value in zip(episode.turns, values, strict=True):
        turn.response_ids = tuple(range(tokens))
        turn.logprobs = (-0.5,) * tokens
        turn.scores["teacher"] = (value,) * tokens
    return episode


def test_means_by_turn_and_the_gap_to_the_student() -> None:
    profile = TeacherProfile()
    profile.add(scored([-1.0, -2.0], [3, 2, 1]))
    profile.add(scored([-3.0, -2.0], [3, 2, 1]))
    found = profile.as_dict()
    assert found["logprob"]["by_turn"] == {"0": {"mean": -2.0, "n": 2}, "1": {"mean": -2.0, "n": 2}}
    assert found["gap"]["by_turn"]["0"]["mean"] == pytest.approx(1.5)
    assert found["left_out"] == {"no error to align at": 2, NO_POSITIONS: 4}


def test_cohens_d_is_that_of_the_residuals() -> None:
    rng = np.random.default_rng(0)
    profile, before, after = TeacherProfile(), [], []
    episodes = []
    for _ in range(60):
        error = int(rng.integers(1, 5))
        values = [float(-t + 0.3 * rng.normal() - (t >= error)) for t in range(6)]
        distances = [9 - t if t <= error else 9 - t + 4 for t in range(7)]
        episodes.append((error, values))
        profile.add(scored(values, distances))
    usual = np.mean([values for _, values in episodes], axis=0)
    for error, values in episodes:
        for t, value in enumerate(values):
            (after if t >= error else before).append(value - usual[t])
    pooled = np.sqrt(
        (np.var(before) * len(before) + np.var(after) * len(after)) / (len(before) + len(after) - 2)
    )
    assert profile.cohens_d("logprob") == pytest.approx((np.mean(after) - np.mean(before)) / pooled)
    assert profile.cohens_d("logprob") < -0.3
    offsets = profile.as_dict()["logprob"]["by_offset"]
    assert offsets["0"]["n"] == 60


def test_positions_leave_out_the_first_tokens() -> None:
    profile = TeacherProfile(skip_tokens=10)
    episode = scored([-1.0], [3, 2], tokens=30)
    episode.turns[0].scores["teacher"] = (-9.0,) * 10 + (-1.0,) * 10 + (-2.0,) * 10
    profile.add(episode)
    deciles = [v["mean"] for v in profile.as_dict()["logprob"]["by_decile"]]
    assert deciles == [-1.0] * 5 + [-2.0] * 5
    profile.add(scored([-1.0, -1.0], [3, 2, 1], tokens=10))
    found = profile.as_dict()
    assert [v["n"] for v in found["logprob"]["by_decile"]] == [2] * 10
    assert found["left_out"][NO_POSITIONS] == 2


def test_tokens_of_short_turns_lie_where_they_are_and_each_counts_once() -> None:
    profile = TeacherProfile(skip_tokens=0)
    episode = scored([-1.0], [3, 2], tokens=5)
    episode.turns[0].scores["teacher"] = (-1.0, -2.0, -3.0, -4.0, -5.0)
    profile.add(episode)
    deciles = profile.as_dict()["logprob"]["by_decile"]
    assert [v and v["mean"] for v in deciles] == [None, -1, None, -2, None, -3, None, -4, None, -5]
    long = scored([-1.0], [3, 2], tokens=30)
    profile.add(long)
    assert profile.as_dict()["logprob"]["by_decile"][9] == {"mean": pytest.approx(-2), "n": 4}


def test_too_little_gives_no_effect_size_and_a_count() -> None:
    profile = TeacherProfile()
    profile.add(path([3, 2]))
    assert profile.as_dict()["left_out"] == {"no teacher scores": 1}
    assert profile.cohens_d("gap") is None


def test_the_first_error_is_the_oracles_or_else_the_first_named() -> None:
    episode = path([3, 2, 3, 3])
    episode.pivots = [Pivot(0, "teacher"), Pivot(2, "teacher")]
    assert first_error(episode) == 1
    episode.distances_known = False
    assert first_error(episode) == 0
    episode.pivots = [Pivot(0, "random")]
    episode.reflection = Reflection(pivot=2, valid=True)
    assert first_error(episode) == 2
