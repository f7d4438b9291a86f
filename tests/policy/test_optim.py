"""Gradients of many micro-batches add up as those of one pass do, in reduced precision too."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from .conftest import MakePolicy, episode_rows  # noqa: E402


def test_many_micro_batches_in_bfloat16_add_up_to_the_exact_gradient(
    make_policy: MakePolicy, gradient: Any
) -> None:
    """512 equal rows, each a pass of its own: added in bfloat16 they would lose a quarter of the gradient."""
    row = episode_rows(make_policy(), np.random.default_rng(0), turns=1, name="e")[0]
    rows = [dataclasses.replace(row, episode=str(n)) for n in range(512)]
    exact, _ = gradient(make_policy(merge_rows="off"), rows)
    many, _ = gradient(make_policy(dtype="bfloat16", merge_rows="off", token_budget=1), rows)
    assert float((many - exact).norm() / exact.norm()) < 0.05, (
        "the rounding of one pass, not of 512 additions"
    )
    assert float(many.norm() / exact.norm()) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_saved_state_is_a_copy_on_the_cpu(make_policy: MakePolicy, dtype: str) -> None:
    policy = make_policy(dtype=dtype)
    rows = episode_rows(policy, np.random.default_rng(0), turns=2, name="e")
    policy.update(rows)
    saved = policy._stepper.state_dict()
    kept = {name: value.clone() for name, value in saved.items()}
    policy.update(rows)
    assert all(torch.equal(saved[name], value) and value.device.type == "cpu" for name, value in kept.items())
    assert any("master/" in name for name in saved) == (dtype == "bfloat16")
    moved = policy._stepper.state_dict()
    assert not all(torch.equal(moved[name], value) for name, value in kept.items())


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_gradients_are_kept_in_float32_alone(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(dtype="bfloat16", optimizer={"kind": kind})
    network, stepper = policy.network, policy._stepper
    ids = torch.tensor([[3, 4, 5]])
    network.hidden(ids).float().sum().backward()
    once = {name: master.grad.clone() for name, master in stepper.masters.items()}
    assert all(grad.dtype == torch.float32 for grad in once.values())
    assert all(weight.grad is None for weight in network.model.parameters())
    for _ in range(300):
        network.hidden(ids).float().sum().backward()
    for name, master in stepper.masters.items():
        torch.testing.assert_close(master.grad, 301 * once[name], rtol=1e-5, atol=0)
    stepper.zero_grad()
    assert stepper.gradient_norm() == 0.0
