"""Losses, ratios and KL estimates against verl's core functions: values and gradients.

verl computes in float64 here. Our training loss computes in float32 whatever it is given; log-probs are multiples
of 1/256, so that at least their differences are exact, and both agree to 1e-6. The NumPy references are float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

from turnpoint.credit import gspo_ratio, ppo_surrogate, reverse_kl_advantages
from turnpoint.policy.loss import policy_loss

CASES = 300
NO_DUAL_CLIP = 1e9
AGGREGATIONS = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"]
CLOSE = {"rtol": 1e-6, "atol": 1e-6}
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@dataclass
class Case:
    """One mini-batch ``[rows, tokens]`` and the options both sides are called with."""

    new: Tensor
    old: Tensor
    gain: Tensor
    mask: Tensor
    low: float
    high: float
    dual: float | None

    def ours(self, **options) -> tuple[float, Tensor, dict[str, float]]:
        new = self.new.clone().requires_grad_()
        options = {"clip": self.low, "clip_high": self.high, "dual_clip": self.dual} | options
        loss, metrics = policy_loss(new, self.old, self.gain, self.mask.bool(), **options)
        loss.backward()
        return loss.item(), new.grad, metrics

    def theirs(self, name: str, aggregation: str, **batch) -> tuple[float, Tensor, dict[str, float]]:
        new = self.new.clone().requires_grad_()
        function = core_algos.get_policy_loss_fn(name)
        loss, metrics = function(self.old, new, self.gain, self.mask, aggregation, self.config(**batch))
        loss.backward()
        return loss.item(), new.grad, metrics

    def per_token(self, name: str) -> Tensor:
        """verl's loss of each token, as the derivative by the weights it multiplies them with."""
        weights = torch.ones_like(self.new).requires_grad_()
        function = core_algos.get_policy_loss_fn(name)
        loss, _ = function(self.old, self.new, self.gain, self.mask, "token-sum", self.config(), weights)
        return torch.autograd.grad(loss, weights)[0]

    def config(self, **batch: float) -> ActorConfig:
        config = actor_config(self.low, self.high, self.dual or NO_DUAL_CLIP)
        config.global_batch_info.clear()
        config.global_batch_info.update(batch)
        return config


@cache
def actor_config(low: float, high: float, dual: float) -> ActorConfig:
    """Made once for each choice of clips, because making one takes longer than a loss."""
    return ActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
        clip_ratio=low, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=dual,
    )  # fmt: skip


def grid(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> Tensor:
    return torch.tensor(rng.integers(round(low * 256), round(high * 256) + 1, size=shape) / 256)


def cases(seed: int, gap: float = 1.0, count: int = CASES) -> Iterator[Case]:
    """Ragged rows with observations between their tokens, some rows without any trained token."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = int(rng.integers(1, 6)), int(rng.integers(1, 11))
        mask = torch.tensor(rng.random(shape) < rng.uniform(0.3, 1.0), dtype=torch.float64)
        mask[rng.random(shape[0]) < 0.1] = 0.0
        mask[0, 0] = 1.0
        old = grid(rng, -6, 0, shape)
        gain = grid(rng, -2, 2, shape if rng.random() < 0.5 else (shape[0], 1)).expand(shape).clone()
        low, high = rng.choice([0.1, 0.2, 0.3]), rng.choice([0.1, 0.28, 0.5])
        dual = [None, 1.5, 3.0][rng.integers(3)]
        yield Case(old + grid(rng, -gap, gap, shape), old, gain, mask, float(low), float(high), dual)


def agree(ours: tuple[float, Tensor, dict], theirs: tuple[float, Tensor, dict]) -> None:
    np.testing.assert_allclose(ours[0], theirs[0], **CLOSE)
    np.testing.assert_allclose(ours[1].numpy(), theirs[1].numpy(), **CLOSE)


def kl_loss(case: Case, reference: Tensor, estimator: str, aggregation: str) -> tuple[float, Tensor]:
    """verl's KL loss and its gradient."""
    new = case.new.clone().requires_grad_()
    loss = core_algos.agg_loss(core_algos.kl_penalty(new, reference, estimator), case.mask, aggregation)
    loss.backward()
    return loss.item(), new.grad


def one_row(gaps: list[float], gain: float) -> Case:
    new = torch.tensor([gaps], dtype=torch.float64)
    return Case(new, torch.zeros_like(new), torch.full_like(new, gain), torch.ones_like(new), 0.2, 0.2, None)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_ppo(aggregation: str) -> None:
    """Clip, separate upper clip, dual clip (verl's cannot be off, so 1e9 stands for off), value and gradient."""
    bounded = 0.0
    for case in cases(1):
        ours, theirs = case.ours(aggregation=aggregation), case.theirs("vanilla", aggregation)
        agree(ours, theirs)
        np.testing.assert_allclose(ours[2]["clip_fraction"], theirs[2]["actor/pg_clipfrac"], **CLOSE)
        np.testing.assert_allclose(ours[2]["ppo_kl"], theirs[2]["actor/ppo_kl"], **CLOSE)
        bounded += theirs[2]["actor/pg_clipfrac_lower"]
    assert bounded > 1.0


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gspo(aggregation: str) -> None:
    """The row's geometric mean ratio at each token; a dual clip is ours alone, so it is off."""
    clipped = 0.0
    for case in cases(2):
        case.dual = None
        ours, theirs = case.ours(aggregation=aggregation, ratio="sequence"), case.theirs("gspo", aggregation)
        agree(ours, theirs)
        np.testing.assert_allclose(ours[2]["clip_fraction"], theirs[2]["actor/pg_clipfrac"], **CLOSE)
        clipped += theirs[2]["actor/pg_clipfrac"]
    assert clipped > 1.0


def test_token_losses_of_ppo() -> None:
    for case in cases(3, gap=2.0):
        chosen = case.mask.bool()
        ratios = torch.exp(case.new - case.old)[chosen]
        ours = ppo_surrogate(
            ratios, case.gain[chosen], clip=case.low, clip_high=case.high, dual_clip=case.dual
        )
        np.testing.assert_allclose(ours, case.per_token("vanilla")[chosen], **EXACT)


def test_token_ratios_of_gspo() -> None:
    """With A = -1 and clips out of reach a token's loss is its ratio."""
    for case in cases(4, gap=2.0):
        case.gain, case.low, case.high = -torch.ones_like(case.gain), 1e9, 1e9
        theirs = case.per_token("gspo")
        for row, chosen in enumerate(case.mask.bool()):
            if chosen.any():
                ours = gspo_ratio((case.new - case.old)[row][chosen])
                np.testing.assert_allclose(ours, theirs[row][chosen], **EXACT)


def test_means_of_rows_differ_by_verls_epsilon() -> None:
    """verl divides a row's sum by its tokens + 1e-8, ours by its tokens: in float64 that is the only difference."""
    for case in cases(5):
        lengths = case.mask.sum(-1)
        rows, counts = case.per_token("vanilla").sum(-1)[lengths > 0], lengths[lengths > 0]
        theirs = case.theirs("vanilla", "seq-mean-token-mean")[0]
        np.testing.assert_allclose((rows / (counts + 1e-8)).mean(), theirs, **EXACT)
        np.testing.assert_allclose((rows / counts).mean(), theirs, rtol=2e-8, atol=1e-7)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_parts_of_a_mini_batch(aggregation: str) -> None:
    """Our ``denominator`` is verl's number of tokens or rows of the global batch."""
    for case in cases(6):
        lengths = case.mask.sum(-1)
        tokens, rows = float(lengths.sum()) + 7.0, float((lengths > 0).sum()) + 2.0
        denominator = tokens if aggregation == "token-mean" else rows
        theirs = case.theirs("vanilla", aggregation, batch_num_tokens=tokens, global_batch_size=rows)
        agree(case.ours(aggregation=aggregation, denominator=denominator), theirs)


def test_verls_other_aggregations_are_denominators() -> None:
    """``token-sum`` divides by 1; ``seq-mean-token-sum-norm`` divides by rows times the padded length."""
    for case in cases(7):
        agree(case.ours(denominator=1.0), case.theirs("vanilla", "token-sum"))
        denominator = float((case.mask.sum(-1) > 0).sum()) * case.mask.shape[1]
        ours = case.ours(aggregation="seq-mean-token-sum", denominator=denominator)
        agree(ours, case.theirs("vanilla", "seq-mean-token-sum-norm"))


@pytest.mark.parametrize("gain", [1.0, -1.0])
@pytest.mark.parametrize("gap", [-30.0, -20.5, 20.5, 30.0])
def test_ratios_are_cut_at_the_same_place(gap: float, gain: float) -> None:
    """Both cut log-ratios at 20 before exp, and a cut token has no gradient; our ppo_kl is of the uncut ones."""
    case = one_row([gap, 0.125], gain)
    case.dual = 3.0
    ours, theirs = case.ours(), case.theirs("vanilla", "token-mean")
    agree(ours, theirs)
    assert ours[1][0, 0] == 0
    np.testing.assert_allclose(ours[2]["ppo_kl"], (-gap - 0.125) / 2, **CLOSE)
    np.testing.assert_allclose(theirs[2]["actor/ppo_kl"], (-20 * np.sign(gap) - 0.125) / 2, **CLOSE)


def test_gspo_is_cut_in_different_places() -> None:
    """verl cuts the row's log-ratio from above at 10, ours each token's at +-20 before the mean."""
    case = one_row([15.0, 13.0], gain=-1.0)
    (ours, gradient, _), (theirs, their_gradient, _) = (
        case.ours(ratio="sequence"),
        case.theirs("gspo", "token-mean"),
    )
    np.testing.assert_allclose([ours, theirs], np.exp([14.0, 10.0]), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.exp([[14.0, 14.0]]) / 2, rtol=1e-6)
    assert not their_gradient.any()
    case = one_row([-30.0, 0.0], gain=1.0)
    ours, theirs = case.ours(ratio="sequence")[0], case.theirs("gspo", "token-mean")[0]
    np.testing.assert_allclose([ours, theirs], -np.exp([-10.0, -15.0]), rtol=1e-5)


def test_a_dual_clip_bounds_gspo_here_only() -> None:
    case = one_row([2.0, 2.0], gain=-1.0)
    case.dual = 3.0
    np.testing.assert_allclose(case.ours(ratio="sequence")[0], 3.0, **CLOSE)
    np.testing.assert_allclose(case.theirs("gspo", "token-mean")[0], np.exp(2.0), **CLOSE)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_that_is_not_a_number(aggregation: str) -> None:
    """Ours never reads it. verl's value does in rows that are trained, except in ``token-mean``."""
    for case in cases(8, count=50):
        clean = case.ours(aggregation=aggregation)
        outside = ~case.mask.bool()
        if outside.any():
            case.old[outside] = float("nan")
            dirty = case.ours(aggregation=aggregation)
            assert dirty[0] == clean[0]
            assert torch.equal(dirty[1], clean[1])
            theirs = case.theirs("vanilla", aggregation)[0]
            read = bool((outside & (case.mask.sum(-1, keepdim=True) > 0)).any())
            assert np.isnan(theirs) == (read and aggregation != "token-mean")


def test_k1_is_minus_the_distillation_advantage() -> None:
    """Per token in float64; its mean from the sampler to the trainer is the ``ppo_kl`` we log."""
    for case in cases(9, gap=3.0):
        chosen = case.mask.bool()
        k1 = core_algos.kl_penalty(case.old, case.new, "k1")
        ours = reverse_kl_advantages(case.new[chosen], case.old[chosen])
        np.testing.assert_allclose(-ours, k1[chosen], **EXACT)
        np.testing.assert_allclose(case.ours()[2]["ppo_kl"], k1[chosen].mean(), **CLOSE)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradient_of_k2_is_that_of_distillation_advantages(aggregation: str) -> None:
    """k2 has no function of its own here: on policy, advantages of log pi_T - log pi give exactly its gradient.

    verl's straight-through estimators (k1+, k3+) have that gradient as well.
    """
    for case in cases(10, gap=3.0):
        teacher = case.old
        case.gain = torch.tensor(reverse_kl_advantages(teacher.flatten(), case.new.flatten())).view_as(
            teacher
        )
        case.old = case.new.clone()
        ours = case.ours(aggregation=aggregation)[1]
        for estimator in ("k2", "k1+", "k3+"):
            _, theirs = kl_loss(case, teacher, estimator, aggregation)
            np.testing.assert_allclose(ours, theirs, **CLOSE)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_k3(aggregation: str) -> None:
    """Added to the policy loss with a weight, and alone (advantages 0). ``low_var_kl`` is verl's name for it."""
    for case in cases(11, gap=2.0):
        reference, weight = case.old + 0.5, 0.25
        penalty, gradient = kl_loss(case, reference, "k3", aggregation)
        assert kl_loss(case, reference, "low_var_kl", aggregation)[0] == penalty
        policy = case.theirs("vanilla", aggregation)
        ours = case.ours(aggregation=aggregation, ref_logprobs=reference, kl=weight)
        np.testing.assert_allclose(ours[2]["kl"], penalty, **CLOSE)
        agree(ours, (policy[0] + weight * penalty, policy[1] + weight * gradient, {}))
        case.gain = torch.zeros_like(case.gain)
        agree(case.ours(aggregation=aggregation, ref_logprobs=reference, kl=1.0), (penalty, gradient, {}))


@pytest.mark.parametrize("gap", [-30.0, -21.0, -12.0, -10.5, 2.75, 5.0, 19.5, 21.0, 30.0])
def test_k3_is_cut_twice_by_verl(gap: float) -> None:
    """Both cut the gap to the reference at +-20. verl cuts the estimate itself at 10 too; ours keeps its gradient."""
    case = one_row([0.0], gain=0.0)
    new = case.new.clone().requires_grad_()
    estimate = core_algos.kl_penalty(new, case.new + gap, "k3")
    estimate.sum().backward()
    ours, gradient, _ = case.ours(ref_logprobs=case.new + gap, kl=1.0)
    cut = np.clip(gap, -20, 20)
    k3 = np.exp(cut) - cut - 1
    np.testing.assert_allclose(ours, k3, rtol=1e-6)
    np.testing.assert_allclose(gradient.item(), 0.0 if cut != gap else 1 - np.exp(gap), rtol=1e-6)
    np.testing.assert_allclose(estimate.item(), min(k3, 10.0), rtol=1e-12)
    assert (new.grad.item() == 0) == (k3 > 10.0)
