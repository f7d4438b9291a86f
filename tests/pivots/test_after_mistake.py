from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from turnpoint.pivots.after_mistake import divergence_after_mistakes
from turnpoint.pivots.information import name_best_actions
from turnpoint.policy import ScoreRequest
from turnpoint.records import RecordError
from turnpoint.testing import toy_suite
from turnpoint.testing.scripted_policy import ScriptedPolicy

from .tools import agent, path, played


class Comparing(ScriptedPolicy):
    """Its divergence is the number of tokens that the hint adds."""

    def divergences(
        self, pairs: Sequence[tuple[ScoreRequest, ScoreRequest]], direction: str = "forward"
    ) -> list[np.ndarray]:
        assert direction == "forward"
        return [
            np.full(len(told.response_ids), float(len(told.prompt_ids) - len(plain.prompt_ids)))
            for told, plain in pairs
        ]


def test_kl_by_turns_after_the_mistake() -> None:
    suite = toy_suite(max_turns=12)
    _, scorer = agent(suite)
    scorer.policy = Comparing(scorer.policy.script)
    episodes = [e for e in played(12) if not e.success]
    for episode in episodes:
        name_best_actions(suite.make(), episode)
    found = divergence_after_mistakes([*episodes, path([3, 2, 1], "good")], scorer)
    assert 0 not in found.by_offset
    assert min(found.by_offset) == 1
    assert all(value.mean > 50 for value in found.by_offset.values())
    assert found.left_out["episode without a pivot"] >= 1
    assert found.episodes == len(episodes) + 1 - found.left_out["episode without a pivot"]


def test_turns_without_tokens_are_counted() -> None:
    _, scorer = agent(toy_suite())
    scorer.policy = Comparing(scorer.policy.script)
    found = divergence_after_mistakes([path([3, 4, 4, 4])], scorer)
    assert found.left_out == {"turn without gold action or tokens": 2}
    assert found.by_offset == {}


def test_a_policy_without_distributions_is_refused() -> None:
    _, scorer = agent(toy_suite())
    with pytest.raises(RecordError, match="cannot compare whole distributions"):
        divergence_after_mistakes([], scorer)
