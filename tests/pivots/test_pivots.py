from __future__ import annotations

import numpy as np
import pytest

from turnpoint.pivots import bootstrap_interval, first_oracle_pivot, oracle_pivots, summarise, wasted_turns
from turnpoint.records import Episode, Observation, RecordError, StopReason, Task, Turn


def episode(path: list[int | None], *, success: bool = False, name: str = "e", actions: str = "") -> Episode:
    turns = [
        Turn(i, Observation("o", state_key="s"), action="a", executed=(actions or "abcdefgh")[i], distance=d)
        for i, d in enumerate(path[:-1])
    ]
    stop = StopReason.SUCCESS if success else StopReason.MAX_TURNS
    return Episode(
        name, Task(name, "toy", type="t"), turns, stop, success, final_distance=path[-1], distances_known=True
    )


def test_a_pivot_is_a_turn_after_which_the_distance_rose() -> None:
    assert oracle_pivots(episode([3, 2, 3, 2, 1, 2])) == [1, 4]
    assert oracle_pivots(episode([3, 3, 3])) == []
    assert first_oracle_pivot(episode([3, 2, 1, 0], success=True)) is None
    assert wasted_turns(episode([3, 2, 3, 2, 1, 2])) == 3
    assert wasted_turns(episode([3, 4])) == 0


def test_ruining_the_task_is_a_pivot_and_the_last_one() -> None:
    assert oracle_pivots(episode([3, None, None, None])) == [0]
    assert oracle_pivots(episode([None, None])) == []


def test_unmeasured_episodes_are_refused() -> None:
    blind = episode([3, 2])
    blind.distances_known = False
    with pytest.raises(RecordError, match="no oracle distances"):
        oracle_pivots(blind)


def test_interval_covers_and_resamples_units() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(200):
        hits += (i := bootstrap_interval(rng.normal(1, 1, 60), seed=seed)).low <= 1 <= i.high
    assert 180 <= hits <= 200
    values = np.repeat(rng.normal(0, 1, 20), 50)
    loose = bootstrap_interval(values, units=np.repeat(np.arange(20), 50).tolist())
    tight = bootstrap_interval(values)
    assert loose.high - loose.low > 4 * (tight.high - tight.low)
    assert bootstrap_interval([1, 1, 1]).low == 1
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval([])


def test_summary_counts_what_happened() -> None:
    good = episode([2, 1, 0], success=True, name="a")
    spoilt = episode([2, 3, 2, 3], name="b", actions="xxy")
    spoilt.turns[2].action = None
    recovered = episode([2, 3, 2, 1, 0], success=True, name="c")
    stopped = episode([2, 2], name="d")
    stopped.stop, stopped.success = StopReason.OUT_OF_SUPPORT, None
    summary = summarise([good, spoilt, recovered, stopped])
    assert summary.success.mean == pytest.approx(2 / 3)
    assert summary.success.n == 3
    assert summary.stops == {"max_turns": 1, "out_of_support": 1, "success": 2}
    assert summary.invalid_rate == pytest.approx(1 / 9)
    assert summary.repeated_rate == pytest.approx(1 / 9)
    assert summary.pivot_rate.mean == pytest.approx(2 / 3)
    assert summary.recovered.mean == pytest.approx(1 / 2)
    assert summary.wasted_turns.mean == 2
    assert summary.by_type["t"].n == 3
    assert summary.score is None
    assert "score" not in summary.as_dict()
    good.score, spoilt.score, recovered.score, stopped.score = 1.0, 0.25, 1.0, 0.0
    assert summarise([good, spoilt, recovered, stopped]).as_dict()["score"]["mean"] == 0.75
    with pytest.raises(RecordError, match="no episode has an outcome"):
        summarise([stopped])
