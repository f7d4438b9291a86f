"""How far sampler and trainer are apart, as the verl policy reports it; without verl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from turnpoint.policy.protocol import Floats, ScoreRequest
from turnpoint.policy.verl import VerlPolicySettings
from turnpoint.policy.verl.policy import VerlPolicy
from turnpoint.records import Row


class Trainer:
    """Scores every token with log-prob -1."""

    def __init__(self) -> None:
        self.scored: list[tuple[int, ...]] = []

    def logprobs(self, requests: Sequence[ScoreRequest], which: str, *, source: str) -> list[Floats]:
        assert (which, source) == ("live", "actor")
        self.scored += [request.response_ids for request in requests]
        return [np.full(len(request.response_ids), -1.0) for request in requests]


def policy() -> Any:
    made: Any = object.__new__(VerlPolicy)
    made.settings, made.context_length = VerlPolicySettings(model="m"), 8
    made._scorer = Trainer()
    return made


def row(old: list[float], mask: list[bool] | None = None, response: tuple[int, ...] = (3, 4, 5)) -> Row:
    kept = None if mask is None else np.array(mask)
    return Row((1, 2), response, np.array(old), np.ones(len(response)), kept)


def test_only_trained_tokens_are_compared() -> None:
    rows = [row([-1.1, -9.0, -1.3], [True, False, True]), row([-1.0, -1.0, -1.2])]
    found = policy()._compare(rows)
    assert found["logprob_diff_max"] == pytest.approx(0.3)
    assert found["logprob_diff_mean"] == pytest.approx((0.1 + 0.3 + 0.2) / 5)


def test_rows_that_train_nothing_or_do_not_fit_are_not_asked_for() -> None:
    made = policy()
    nothing, long = row([-9.0] * 3, [False] * 3), row([-9.0] * 7, response=tuple(range(7)))
    assert made._compare([nothing, long]) == {}
    assert made._scorer.scored == []
    assert made._compare([nothing, long, row([-1.5] * 3)])["logprob_diff_mean"] == pytest.approx(0.5)
