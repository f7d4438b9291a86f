from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.methods.fast_opd import FastOPDSettings
from turnpoint.methods.opd import OPDSettings
from turnpoint.records import StopReason
from turnpoint.testing.scripted_scoring import ScriptedScoring


def test_rollouts_end_after_the_given_turns(play) -> None:
    played = play(FastOPDSettings(turns=3, group=2), scoring=ScriptedScoring(lambda e, t: -1.0))
    episodes = [e for g in played.groups for e in g.episodes]
    assert {len(e.turns) for e in episodes} <= {1, 2, 3}
    cut = [e for e in episodes if e.stop == StopReason.DEPTH_CAP]
    assert cut
    assert all(e.success is None and len(e.turns) == 3 for e in cut)
    assert played.tally["truncated_rollouts"] == len(cut) / len(episodes)


def test_a_limit_above_the_budget_is_opd_bit_for_bit(play) -> None:
    ours = play(FastOPDSettings(turns=1000, tokens=10**6), scoring=ScriptedScoring(lambda e, t: -1.0))
    opd = play(OPDSettings(), scoring=ScriptedScoring(lambda e, t: -1.0))
    assert [r.advantages.tobytes() for r in ours.rows] == [r.advantages.tobytes() for r in opd.rows]
    assert [r.response_ids for r in ours.rows] == [r.response_ids for r in opd.rows]


@pytest.mark.parametrize("limit", [1, 10, 75])
def test_token_limit_is_exact_and_what_is_beyond_is_counted(play, limit) -> None:
    played = play(FastOPDSettings(turns=None, tokens=limit), scoring=ScriptedScoring(lambda e, t: -1.0))
    for group in played.groups:
        (episode,) = group.episodes
        trained = sum(len(r.response_ids) for r in played.rows if r.episode == episode.id)
        assert trained == min(limit, episode.generated_tokens)
        assert max(len(t.response_ids) for t in episode.turns) <= limit
    dropped = played.tally["dropped_tokens/token_limit"]
    assert sum(len(r.response_ids) for r in played.rows) + dropped == played.sampled
    for row in played.rows:
        np.testing.assert_array_equal(row.advantages, -1.0 - row.old_logprobs)


def test_nothing_to_truncate_is_an_error() -> None:
    with pytest.raises(ValidationError, match="or use opd"):
        FastOPDSettings(turns=None)
