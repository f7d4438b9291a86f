from __future__ import annotations

import numpy as np
import pytest

from turnpoint.credit import sdar_advantages, sdar_gate
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.sdar import SDARSettings


def test_worked_numbers_with_the_methods_defaults() -> None:
    s = SDARSettings()
    student, teacher = np.array([-1.0, -1.0]), np.array([-0.8, -2.6])
    gate = sdar_gate(teacher, student, beta=s.beta)
    np.testing.assert_allclose(gate, [0.731059, 0.000335], atol=1e-6)
    got = sdar_advantages(0.5, teacher, student, coef=s.coef, beta=s.beta)
    np.testing.assert_allclose(got, 0.5 + 0.01 * gate)


def test_the_sampled_token_is_always_raised(easy) -> None:
    played = easy(SDARSettings(group=4, privileged="feedback"))
    plain = easy(GRPOSettings(group=4))
    for ours, theirs in zip(played.rows, plain.rows, strict=True):
        added = ours.advantages - theirs.advantages
        assert (added > 0).all()
        assert (added < 0.01 + 1e-12).all()
    assert 0 < played.tally["gate"] < 1


@pytest.mark.parametrize("gap", [-3.0, 0.0, 0.4])
def test_the_gated_loss_has_the_gradient_of_the_advantage(gap) -> None:
    """-coef · g · log pi with g detached, against the policy loss on policy with A = coef · g."""
    torch = pytest.importorskip("torch")
    from turnpoint.policy.loss import policy_loss

    logits = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64)
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    old = torch.log_softmax(logits, -1)[1:2]
    teacher = old.numpy() + gap
    gate = torch.sigmoid(torch.tensor(5.0 * gap, dtype=torch.float64))
    (-0.01 * gate * torch.log_softmax(theirs, -1)[1]).backward()
    advantage = torch.tensor(sdar_advantages(0.0, teacher, old.numpy(), coef=0.01, beta=5.0))
    loss, _ = policy_loss(torch.log_softmax(ours, -1)[1:2], old, advantage, torch.ones(1, dtype=torch.bool))
    loss.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-9)
