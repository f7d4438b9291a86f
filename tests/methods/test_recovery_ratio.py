"""The recovery term keeps its strength over the preventive one, whatever K and the length of turns."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.recovery_ratio import RecoveryRatio, RecoveryRatioSettings
from turnpoint.methods.tally import Tally
from turnpoint.policy.settings import LossSettings
from turnpoint.records import RowKind


def test_the_first_step_sets_the_target_and_the_weight_follows() -> None:
    found = RecoveryRatio(RecoveryRatioSettings(), 1.0, Tally())
    assert found.weight(0.0, 50) == 1.0  # no preventive token: nothing to compare with
    assert found.weight(0.12, 120) == pytest.approx(1.0)
    assert found.weight(0.12, 240) == pytest.approx(0.5)
    assert found.weight(0.12, 0) == pytest.approx(0.5)  # a step without recovery keeps the last weight
    assert found.weight(0.06, 240) == pytest.approx(0.25)
    assert found.weight(0.12, 1) == 10.0


def test_a_target_of_ones_own() -> None:
    tally = Tally()
    found = RecoveryRatio(RecoveryRatioSettings(ratio=500, limit=100), 1.0, tally)
    assert found.weight(0.12, 120) == pytest.approx(0.5)
    assert tally.take() == pytest.approx({"recovery_ratio": 500, "recovery_ratio_target": 500, "w_rec": 0.5})


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.integers(1, 5000)), min_size=1, max_size=8), st.integers(0, 7)
)
def test_state_is_all_there_is(steps, cut) -> None:
    whole = RecoveryRatio(RecoveryRatioSettings(), 0.5, Tally())
    expected = [whole.weight(*step) for step in steps]
    first = RecoveryRatio(RecoveryRatioSettings(), 0.5, Tally())
    weights = [first.weight(*step) for step in steps[:cut]]
    second = RecoveryRatio(RecoveryRatioSettings(), 0.5, Tally())
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert weights + [second.weight(*step) for step in steps[cut:]] == expected


def test_rows_have_the_weight_that_is_reported(play, scripted_teacher) -> None:
    common = {"group": 4, "w_prev": 0.01, "w_traj": 0.0}
    sums = {}
    for turns in (1, 3):
        settings = PivotOPDSettings(
            **common, recovery_turns=turns, recovery_ratio={"ratio": 40, "limit": 1000}
        )
        played = play(settings, teacher=scripted_teacher())
        rows = [row for row in played.rows if row.kind == RowKind.RECOVERY]
        weight, tokens = played.tally["w_rec"], sum(len(row.response_ids) for row in rows)
        assert weight * tokens == pytest.approx(40 * 0.01 * played.tally["preventive_tokens"])
        sums[turns] = (weight, weight * tokens)
        turn_of = {(b.id, t.index): t for g in played.groups for b in g.branches for t in b.turns}
        for row in rows:
            gap = np.array(turn_of[row.episode, row.turn].logprobs) - row.old_logprobs
            np.testing.assert_allclose(row.advantages, weight * np.clip(gap, -5, 5), atol=1e-12)
            assert np.abs(row.advantages).max() <= weight * 5 + 1e-12
    assert sums[3][0] < sums[1][0]
    assert sums[3][1] == pytest.approx(sums[1][1])


def test_settings_that_cannot_work_are_refused() -> None:
    for off in (
        {"w_prev": 0.0},
        {"ablation": "recovery_only"},
        {"recovery_turns": 0},
        {"ablation": "preventive_only"},
    ):
        with pytest.raises(ValueError, match="one of them is off"):
            PivotOPDSettings(**off, recovery_ratio={})
    settings = PivotOPDSettings(recovery_ratio={})
    policy = SimpleNamespace(loss=LossSettings(aggregation="seq-mean-token-mean"))
    with pytest.raises(ConfigError, match="set it to token-mean"):
        settings.check_backend(policy, None, None)
    settings.check_backend(SimpleNamespace(loss=LossSettings()), None, None)
