"""Methods train through verl: collected by its servers, scored by them, updated by its workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnpoint.records import Row

from .conftest import load, steps, train

RECIPES = {
    "pivotopd_household": ["method.group=2", "method.recovery_turns=2", "method.max_pivots=2"],
    "pivoarl_household": ["method.group=2", "method.attempts=2"],
    "stride_household": ["method.stop.lambda=-0.5", "scoring.kind=verl"],
}


def own(recipe: str, model: Path) -> list[str]:
    """Overrides of a recipe; STRIDE's teacher is the first model, on verl's teacher pool."""
    return RECIPES[recipe] + ([f"scoring.model={model}"] if recipe.startswith("stride") else [])


class Spy:
    """Keeps the rows of every update."""

    def __init__(self, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[list[Row]] = []
        original = policy.update

        def update(rows: Sequence[Row]) -> dict[str, float]:
            self.rows.append(list(rows))
            metrics: dict[str, float] = original(rows)
            return metrics

        monkeypatch.setattr(policy, "update", update)


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_method_trains(
    recipe: str, policy: Any, model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(policy, monkeypatch)
    config = load(recipe, cache, *own(recipe, model), f"policy.model={model}", "train.steps=2")
    run = train(config, tmp_path / "run")
    found = steps(tmp_path / "run")
    assert [record["step"] for record in found] == [1, 2]
    assert len(spy.rows) == 2
    for record, rows in zip(found, spy.rows, strict=True):
        assert record["rows"] == len(rows) > 0
        assert record["update/optimizer_steps"] == 1
        assert abs(record["update/ppo_kl"]) < 1e-5
        assert record["update/logprob_diff_max"] < 1e-5
        gained = sum(
            float((row.advantages[row.mask] if row.mask is not None else row.advantages).sum())
            for row in rows
        )
        tokens = sum(row.trained_tokens for row in rows)
        assert record["update/tokens"] == tokens
        assert record["update/pg_loss"] == pytest.approx(-gained / tokens, abs=1e-5)
        assert record["sampled_tokens"] > 0
    if recipe.startswith("pivotopd"):
        assert sum(record["pivots_used"] for record in found) > 0
        assert sum(record["recovery_tokens"] for record in found) > 0
    if recipe.startswith("stride"):
        assert sum(record["stopped"] for record in found) > 0
        assert found[0]["scoring/requests"] > 0
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir()) == [
        "step_000001",
        "step_000002",
    ]
    assert run.policy is policy


@pytest.mark.parametrize("recipe", ["pivotopd_household", "pivoarl_household"])
def test_the_same_seeds_give_the_same_rows_as_the_local_policy(
    recipe: str, policy: Any, model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(policy, monkeypatch)
    overrides = [*own(recipe, model), f"policy.model={model}", "train.steps=1"]
    train(load(recipe, cache, *overrides), tmp_path / "verl")
    local = load(recipe, cache, *overrides, backend=[])
    import asyncio

    from turnpoint.training.loop import Trainer
    from turnpoint.training.run import build_run
    from turnpoint.training.view import View

    run = build_run(local, tmp_path / "local")
    other = Spy(run.policy, monkeypatch)
    asyncio.run(Trainer(run, View()).train())
    ours, theirs = spy.rows[0], other.rows[0]
    assert len(ours) == len(theirs) > 0
    same = [
        a.prompt_ids == b.prompt_ids and a.response_ids == b.response_ids
        for a, b in zip(ours, theirs, strict=True)
    ]
    assert np.mean(same) > 0.98  # a draw so close that rounding decides it may fall otherwise
    for a, b, equal in zip(ours, theirs, same, strict=True):
        if equal and all(same):
            np.testing.assert_allclose(a.advantages, b.advantages, atol=1e-4)
            np.testing.assert_allclose(a.old_logprobs, b.old_logprobs, atol=1e-4)
    one, two = steps(tmp_path / "verl")[0], steps(tmp_path / "local")[0]
    if all(same):
        for name in ("loss", "pg_loss", "grad_norm"):
            assert one[f"update/{name}"] == pytest.approx(two[f"update/{name}"], rel=1e-4, abs=1e-5)
