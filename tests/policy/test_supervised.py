"""Supervised steps for warm starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.policy.local.optim import Stepper  # noqa: E402

from .conftest import MakePolicy, random_ids  # noqa: E402


def examples(n: int = 6) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    result = []
    for _ in range(n):
        ids = np.array(random_ids(rng, int(rng.integers(3, 20))))
        result.append((ids, rng.choice([0.0, 0.1, 1.0], len(ids))))
    return result


def test_gradient_is_that_of_weighted_cross_entropy(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught: list[Any] = []
    monkeypatch.setattr(
        Stepper,
        "step",
        lambda self, *args: caught.append([w.grad.clone() for w in self.weights.values()]) or 0.0,
    )
    batch = examples()
    losses = [make_policy(token_budget=budget).supervised_update(batch)["loss"] for budget in (30, 10_000)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    model = make_policy().network.model
    total, weight = torch.zeros(()), 0.0
    for ids, weights in batch:
        logits = model(input_ids=torch.tensor(ids[None])).logits[0, :-1]
        each = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
        total = total + (each * torch.tensor(weights[1:])).sum()
        weight += weights[1:].sum()
    (total / weight).backward()
    assert losses[0] == pytest.approx((total / weight).item(), rel=1e-5)
    for got in caught:
        for grad, parameter in zip(got, model.parameters(), strict=True):
            torch.testing.assert_close(grad, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_it_learns(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(optimizer={"kind": kind, "lr": 2e-2})
    metrics = [policy.supervised_update(examples()) for _ in range(30)]
    assert metrics[-1]["loss"] < 0.5 * metrics[0]["loss"]
    assert policy._stepper.steps == 30


def test_what_cannot_be_trained(make_policy: MakePolicy) -> None:
    policy = make_policy(context_length=12)
    short, long = (np.arange(2, 8), np.ones(6)), (np.arange(2, 22), np.ones(20))
    metrics = policy.supervised_update([short, long])
    assert metrics["sequences_dropped/too_long"] == 1
    assert metrics["tokens"] == 5
    with pytest.raises(ValueError, match="weight above 0"):
        policy.supervised_update([long])
    with pytest.raises(ValueError, match="sequence 1 has ids of shape"):
        policy.supervised_update([short, (np.arange(3), np.ones(2))])
    with pytest.raises(ValueError, match="negative"):
        policy.supervised_update([(np.arange(2, 5), np.array([0.0, -1.0, 1.0]))])
