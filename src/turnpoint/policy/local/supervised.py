"""One optimizer step of weighted cross-entropy, for warm starts."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from turnpoint.policy.local.memory import Budget
from turnpoint.policy.local.merge import micro_batches
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.optim import NonFiniteGradient, Stepper
from turnpoint.policy.local.scorer import token_logprobs

Example = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Token ids ``[n]`` and the weight ``[n]`` of predicting each from those before it."""


def supervised_step(
    network: Network,
    stepper: Stepper,
    examples: Sequence[Example],
    *,
    budget: Budget,
    context: int,
    checkpointing: bool = False,
    lr_scale: float = 1.0,
) -> dict[str, float]:
    """One step on ``sum(weight * cross-entropy) / sum(weight)``, at a share of the learning rate; returns metrics.

    The first token of a sequence has no context and is left out whatever its weight. Sequences longer than the
    context are left out and counted. Raises ``ValueError`` if lengths differ or no positive weight is left.
    """
    began = time.perf_counter()
    kept = [_check(i, *example) for i, example in enumerate(examples)]
    long = sum(len(ids) > context for ids, _ in kept)
    kept = [(ids, weights) for ids, weights in kept if len(ids) <= context and weights.any()]
    total = float(sum(weights.sum() for _, weights in kept))
    if total <= 0:
        raise ValueError(
            f"none of {len(examples)} sequences has a weight above 0 after its first token within {context} tokens"
        )
    loss, tokens, processed = budget.run(
        lambda most: _gradient(network, stepper, kept, most, total, checkpointing),
        max(len(ids) for ids, _ in kept),
    )
    norm = stepper.gradient_norm()
    if not np.isfinite(norm):
        stepper.zero_grad()
        raise NonFiniteGradient("the supervised gradient is not finite; no step was taken")
    rate = stepper.step(norm, lr_scale)
    return {
        "loss": loss,
        "grad_norm": norm,
        "lr": rate,
        "tokens": float(tokens),
        "tokens_processed": float(processed),
        "sequences": float(len(kept)),
        "sequences_dropped/too_long": float(long),
        "seconds": time.perf_counter() - began,
    }


def _gradient(
    network: Network,
    stepper: Stepper,
    examples: Sequence[Example],
    token_budget: int,
    total: float,
    checkpointing: bool,
) -> tuple[float, int, int]:
    """Leave the gradient of the whole batch in the weights; loss, trained tokens and processed tokens."""
    stepper.zero_grad()
    loss_sum, tokens, processed = 0.0, 0, 0
    with network.training(checkpointing=checkpointing, dropout=stepper.steps):
        for batch in micro_batches([len(ids) for ids, _ in examples], token_budget):
            ids = [examples[i][0] for i in batch]
            spots = [np.flatnonzero(examples[i][1]) for i in batch]
            lines = np.concatenate([np.full(len(spot), line) for line, spot in enumerate(spots)])
            weights = np.concatenate([examples[i][1][spot] for i, spot in zip(batch, spots, strict=True)])
            logprobs = token_logprobs(network, ids, lines, np.concatenate(spots), 1.0)
            weight = torch.from_numpy(weights / total).to(logprobs)
            loss = -(weight * logprobs).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            loss_sum += loss.item()
            tokens += len(weights)
            processed += len(batch) * max(len(part) for part in ids)
    return loss_sum, tokens, processed


def _check(number: int, ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Example:
    ids, weights = np.asarray(ids, dtype=np.int64), np.array(weights, dtype=np.float64)
    if ids.ndim != 1 or ids.shape != weights.shape or not len(ids):
        raise ValueError(
            f"sequence {number} has ids of shape {ids.shape} and weights of shape {weights.shape}; "
            "both must be one-dimensional, equally long and not empty"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"sequence {number} has a negative or non-finite weight")
    weights[0] = 0.0
    return ids, weights
