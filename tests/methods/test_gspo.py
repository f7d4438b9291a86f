from __future__ import annotations

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.credit import gspo_ratio
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.gspo import GSPOSettings
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.prompts import PromptSettings

ABLE = PolicyCapabilities(reference=False, sessions=True, full_distribution=True)


def test_rows_are_grpos(easy) -> None:
    ours, grpo = (easy(kind(group=4, invalid_penalty=0.2)).rows for kind in (GSPOSettings, GRPOSettings))
    assert [r.advantages.tobytes() for r in ours] == [r.advantages.tobytes() for r in grpo]
    assert [r.response_ids for r in ours] == [r.response_ids for r in grpo]


def test_the_published_loss_gives_the_worked_ratio() -> None:
    torch = pytest.importorskip("torch")
    from turnpoint.policy.loss import policy_loss

    loss = LocalPolicySettings.model_validate({"model": "x", **GSPOSettings.defaults["policy"]}).loss
    gaps = [0.1, -0.1, 0.3]
    assert gspo_ratio(gaps) == pytest.approx(1.10517, abs=1e-5)
    old = torch.tensor([-1.0, -2.0, -0.5])
    _, metrics = policy_loss(
        old + torch.tensor(gaps), old, torch.ones(3), torch.ones(3, dtype=torch.bool),
        clip=loss.clip, clip_high=loss.clip_high, ratio=loss.ratio, aggregation=loss.aggregation,
    )  # fmt: skip
    assert metrics["ratio_max"] == pytest.approx(1.10517, abs=1e-5)
    assert metrics["clip_fraction"] == 1.0
    assert metrics["pg_loss"] == pytest.approx(-(1 + 4e-4))


def test_every_row_counts_once_however_long_it_is() -> None:
    torch = pytest.importorskip("torch")
    from turnpoint.policy.loss import policy_loss

    loss = LocalPolicySettings.model_validate({"model": "x", **GSPOSettings.defaults["policy"]}).loss
    new = torch.zeros(2, 4, requires_grad=True)
    mask = torch.tensor([[True, False, False, False], [True] * 4])
    gains = torch.tensor([[1.0] * 4, [1.0] * 4])
    value, _ = policy_loss(
        new, torch.zeros(2, 4), gains, mask, ratio=loss.ratio, aggregation=loss.aggregation
    )
    value.backward()
    np.testing.assert_allclose(new.grad.sum(-1).numpy(), [-0.5, -0.5])


@pytest.mark.parametrize("loss", [{}, {"ratio": "token", "clip": 3e-4}])
def test_a_token_ratio_is_refused(loss) -> None:
    policy = LocalPolicySettings.model_validate({"model": "x", "loss": loss})
    with pytest.raises(ConfigError, match=r"policy\.loss\.ratio is 'token'"):
        GSPOSettings().check_backend(policy, ABLE, PromptSettings())


def test_the_sequence_ratio_is_accepted() -> None:
    policy = LocalPolicySettings.model_validate({"model": "x", "loss": {"ratio": "sequence"}})
    GSPOSettings().check_backend(policy, ABLE, PromptSettings())
