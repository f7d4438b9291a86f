"""The policy loss against worked numbers, exact gradients and its invariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.policy.loss import policy_loss  # noqa: E402


def tensors(*values: Any) -> list[Any]:
    return [torch.tensor(v, dtype=torch.float64) for v in values]


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"), [(1.3, 1, -1.2), (1.3, -1, 1.3), (0.7, 1, -0.7), (0.7, -1, 0.8)]
)
def test_clipped_surrogate(ratio: float, advantage: float, expected: float) -> None:
    new, old, gain = tensors([math.log(ratio)], [0.0], [advantage])
    loss, metrics = policy_loss(new, old, gain, torch.ones(1))
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert metrics["pg_loss"] == metrics["loss"] == loss.item()
    assert metrics["clip_fraction"] == float(expected in (-1.2, 0.8))
    assert metrics["ratio_max"] == pytest.approx(ratio)


def test_clip_high_and_dual_clip() -> None:
    new, old, gain = tensors([math.log(1.5)], [0.0], [1.0])
    assert policy_loss(new, old, gain, torch.ones(1), clip_high=0.28)[0].item() == pytest.approx(-1.28)
    new, old, gain = tensors([math.log(9.0)], [0.0], [-1.0])
    assert policy_loss(new, old, gain, torch.ones(1))[0].item() == pytest.approx(9.0, abs=1e-5)
    assert policy_loss(new, old, gain, torch.ones(1), dual_clip=3.0)[0].item() == pytest.approx(3.0)


def test_sequence_ratio() -> None:
    new, old, gain = tensors([0.1, -0.1, 0.3], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    loss, metrics = policy_loss(new, old, gain, torch.ones(3), ratio="sequence")
    assert metrics["ratio_max"] == pytest.approx(1.10517, abs=1e-5)
    assert loss.item() == pytest.approx(-1.10517, abs=1e-5)
    loss, metrics = policy_loss(new, old, gain, torch.ones(3), ratio="sequence", clip=3e-4, clip_high=4e-4)
    assert loss.item() == pytest.approx(-1.0004, abs=1e-6)
    assert metrics["clip_fraction"] == 1.0


def test_sequence_ratio_gradient_is_that_of_the_geometric_mean() -> None:
    old, gain = torch.zeros(2, 3), torch.tensor([[2.0] * 3, [-1.0] * 3])
    new = torch.tensor([[0.1, -0.1, 0.3], [0.05, -0.2, 0.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    loss, _ = policy_loss(new, old, gain, mask, ratio="sequence", clip=10, aggregation="seq-mean-token-mean")
    (got,) = torch.autograd.grad(loss, new)
    again = new.detach().clone().requires_grad_()
    ratios = torch.stack([again[0].mean().exp(), again[1, :2].mean().exp()])
    (expected,) = torch.autograd.grad(-(ratios * gain[:, 0]).mean(), again)
    torch.testing.assert_close(got, expected)


def test_aggregations_see_rows() -> None:
    # Two rows share a line, a third has its own; token losses are minus the advantages at ratio 1.
    zero = torch.zeros(2, 4)
    gain = torch.tensor([[1.0, 3.0, 4.0, 9.0], [6.0, 9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]]).bool()
    segments = torch.tensor([[0, 0, 1, 1], [2, 2, 2, 2]])
    expected = {
        "token-mean": 14 / 4,
        "seq-mean-token-mean": (2 + 4 + 6) / 3,
        "seq-mean-token-sum": (4 + 4 + 6) / 3,
    }
    for aggregation, value in expected.items():
        loss, metrics = policy_loss(zero, zero, gain, mask, aggregation=aggregation, segments=segments)
        assert loss.item() == pytest.approx(-value)
        assert metrics["rows"] == 3
        assert metrics["tokens"] == 4
    # Without segments a line is a row.
    assert policy_loss(zero, zero, gain, mask, aggregation="seq-mean-token-sum")[0].item() == pytest.approx(
        -14 / 2
    )
    with pytest.raises(ValueError, match="token-mean"):
        policy_loss(zero, zero, gain, mask, aggregation="mean")  # type: ignore[arg-type]


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_parts_add_up_to_the_whole(aggregation: Any, ratio: Any) -> None:
    torch.manual_seed(0)
    new, old, gain, ref = torch.randn(4, 10, 6)
    mask = torch.rand(10, 6) < 0.6
    mask[:, 0] = True
    options: dict[str, Any] = {"aggregation": aggregation, "ratio": ratio, "kl": 0.3, "dual_clip": 3.0}
    whole, metrics = policy_loss(new, old, gain, mask, ref_logprobs=ref, **options)
    denominator = float(mask.sum()) if aggregation == "token-mean" else 10.0
    parts = [
        policy_loss(new[s], old[s], gain[s], mask[s], ref_logprobs=ref[s], denominator=denominator, **options)
        for s in (slice(0, 1), slice(1, 7), slice(7, 10))
    ]
    assert sum(loss.item() for loss, _ in parts) == pytest.approx(whole.item(), rel=1e-5)
    for name in ("loss", "pg_loss", "kl"):
        assert sum(values[name] for _, values in parts) == pytest.approx(metrics[name], rel=1e-5)


def test_masked_positions_enter_nothing() -> None:
    new, old, gain = torch.randn(3, 2, 5)
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]).bool()
    dirty = [torch.where(mask, t, torch.tensor(float("nan"))).requires_grad_() for t in (new, old, gain)]
    for ratio in ("token", "sequence"):
        clean, metrics = policy_loss(new, old, gain, mask, ratio=ratio)
        loss, other = policy_loss(*dirty, mask, ratio=ratio)
        assert loss.item() == clean.item()
        assert other == metrics
        grads = torch.autograd.grad(loss, dirty, allow_unused=True)
        assert (grads[0][~mask] == 0).all()
        assert (grads[0][mask] != 0).any()


def test_only_the_new_logprobs_get_a_gradient() -> None:
    new, old, gain, ref = (t.requires_grad_() for t in torch.randn(4, 6))
    loss, _ = policy_loss(new, old.detach(), gain.detach(), torch.ones(6), ref_logprobs=ref.detach(), kl=0.1)
    loss.backward()
    assert new.grad is not None
    assert gain.grad is old.grad is None


def test_k3_penalty() -> None:
    new = torch.tensor([-1.0, -2.0], requires_grad=True)
    ref = torch.tensor([-1.5, -1.0])
    loss, metrics = policy_loss(new, new.detach(), torch.zeros(2), torch.ones(2), ref_logprobs=ref, kl=0.1)
    k3 = np.mean([math.exp(r) - r - 1 for r in (-0.5, 1.0)])
    assert metrics["kl"] == pytest.approx(k3, rel=1e-6)
    assert metrics["pg_loss"] == 0.0
    assert loss.item() == pytest.approx(0.1 * k3, rel=1e-6)
    loss.backward()
    expected = [0.1 / 2 * (1 - math.exp(r)) for r in (-0.5, 1.0)]
    assert new.grad is not None
    np.testing.assert_allclose(new.grad.numpy(), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="ref_logprobs"):
        policy_loss(new, new, new, torch.ones(2), kl=0.1)


def test_a_far_off_token_stays_finite() -> None:
    new = torch.tensor([0.0, -1000.0], requires_grad=True)
    loss, _ = policy_loss(new, torch.tensor([-1000.0, 0.0]), torch.tensor([1.0, -1.0]), torch.ones(2))
    loss.backward()
    assert torch.isfinite(loss)
    assert new.grad is not None
    assert torch.isfinite(new.grad).all()


def test_nothing_to_train_is_zero_with_zero_gradient() -> None:
    new = torch.randn(3, requires_grad=True)
    loss, metrics = policy_loss(new, new.detach(), torch.ones(3), torch.zeros(3))
    loss.backward()
    assert loss.item() == 0.0
    assert metrics["tokens"] == 0.0
    assert (new.grad == 0).all()


def test_unequal_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[3\].*\[2\]"):
        policy_loss(torch.zeros(3), torch.zeros(2), torch.zeros(3), torch.ones(3))


def test_expected_sampled_advantage_gradient_is_the_reverse_kl_gradient() -> None:
    torch.manual_seed(1)
    logits = torch.randn(5, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(5, dtype=torch.float64).log_softmax(0)

    def expected_gradient(target: Any) -> Any:
        total = torch.zeros(5, dtype=torch.float64)
        student = logits.log_softmax(0)
        for token, probability in enumerate(student.detach().exp()):
            old = student[token].detach()[None]
            gain = (target[token] - old).detach()
            loss, _ = policy_loss(logits.log_softmax(0)[token][None], old, gain, torch.ones(1))
            total += probability * torch.autograd.grad(loss, logits)[0].double()
        return total

    student = logits.log_softmax(0)
    (exact,) = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits)
    torch.testing.assert_close(expected_gradient(teacher), exact, atol=1e-6, rtol=1e-5)
    other = torch.randn(5, dtype=torch.float64).log_softmax(0)
    assert not torch.allclose(expected_gradient(other), expected_gradient(teacher), atol=1e-3)
    # Teacher = student: no gradient at all.
    torch.testing.assert_close(expected_gradient(student.detach()), torch.zeros(5, dtype=torch.float64))
