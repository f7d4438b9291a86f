"""The policy loss: PPO's clipped surrogate with per-token advantages, and its relatives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

RatioKind = Literal["token", "sequence"]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"]

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut here before ``exp``: a token this far off is clipped anyway, and must not become inf."""


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.2,
    clip_high: float | None = None,
    dual_clip: float | None = None,
    ratio: RatioKind = "token",
    aggregation: Aggregation = "token-mean",
    segments: Tensor | None = None,
    denominator: float | None = None,
    ref_logprobs: Tensor | None = None,
    kl: float = 0.0,
) -> tuple[Tensor, dict[str, float]]:
    """Loss to minimise and its metrics.

    All tensors have one shape: ``[tokens]``, or ``[rows, tokens]`` right- or left-padded with ``mask`` false.
    Positions outside ``mask`` enter nothing, whatever they hold (NaN included); only ``logprobs`` gets a
    gradient. With ρ = exp(logprobs - old_logprobs) a token's loss is
    ``-min(ρA, clip(ρ, 1 - clip, 1 + clip_high)A)`` (PPO, arXiv 1707.06347, Eq. 7), bounded below in the
    objective by ``dual_clip * A`` where A < 0 (arXiv 1912.09729, Eq. 5). ``ratio="sequence"`` uses the row's
    geometric mean ratio (GSPO, arXiv 2507.18071, Eq. 5-7; per-token advantages as in its GSPO-token, Eq. 14,
    which has the same value and, when a row's advantages are equal, the same gradient).

    ``segments`` (integers, same shape) names the row of each token where several rows share a sequence; the
    default is one row per line, or a single row for 1-D input. ``aggregation`` makes token losses one number:
    ``token-mean`` sums and divides by the number of tokens, ``seq-mean-token-mean`` and
    ``seq-mean-token-sum`` take each row's mean or sum and divide the total by the number of rows.
    ``denominator`` is that number for the whole mini-batch when this call sees a part of it, so that the
    losses of the parts add up to the loss of the whole; None counts what is here.

    ``kl`` adds ``kl * k3`` with k3 = exp(r) - r - 1, r = ref_logprobs - logprobs (Schulman's estimator), on
    the same mask and with the same aggregation.

    Metrics: ``loss``, ``pg_loss`` and ``kl`` are shares of the total (they add up over parts);
    ``clip_fraction`` and ``ppo_kl`` (mean of old - new) are means over the ``tokens`` here; ``ratio_max``;
    ``tokens``; ``rows``. Raises ``ValueError`` on unequal shapes or a missing reference.
    """
    _check_shapes(logprobs, old_logprobs, advantages, mask, segments, ref_logprobs)
    if kl > 0 and ref_logprobs is None:
        raise ValueError(f"kl={kl} needs ref_logprobs, which are None; pass them or set kl=0")
    chosen = mask.bool()
    new = logprobs[chosen].float()
    if new.numel() == 0:
        return new.sum(), _no_tokens()
    old = old_logprobs[chosen].to(new)
    gain = advantages[chosen].to(new)
    row, lengths = _rows(logprobs, segments, chosen)
    weight = _token_weights(row, lengths, aggregation, denominator).to(new)

    log_ratio = (new - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if ratio == "sequence":
        log_ratio = _sequence_log_ratio(new, log_ratio, row, lengths)
    rho = log_ratio.exp()
    high = clip if clip_high is None else clip_high
    unclipped, clipped = rho * gain, rho.clamp(1 - clip, 1 + high) * gain
    objective = torch.minimum(unclipped, clipped)
    if dual_clip is not None:
        objective = torch.where(gain < 0, torch.maximum(objective, dual_clip * gain), objective)
    pg_loss = -(weight * objective).sum()
    loss, kl_value = pg_loss, 0.0
    if ref_logprobs is not None:
        gap = (ref_logprobs[chosen].to(new) - new).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        penalty = (weight * (gap.exp() - gap - 1)).sum()
        kl_value = penalty.item()
        if kl > 0:
            loss = pg_loss + kl * penalty
    with torch.no_grad():
        metrics = {
            "loss": loss.item(),
            "pg_loss": pg_loss.item(),
            "kl": kl_value,
            "clip_fraction": (clipped < unclipped).float().mean().item(),
            "ppo_kl": (old - new).mean().item(),
            "ratio_max": rho.max().item(),
            "tokens": float(new.numel()),
            "rows": float(lengths.numel()),
        }
    return loss, metrics


def _check_shapes(logprobs: Tensor, *others: Tensor | None) -> None:
    for other in others:
        if other is not None and other.shape != logprobs.shape:
            raise ValueError(
                f"logprobs have shape {list(logprobs.shape)} but another argument has {list(other.shape)}; "
                "old_logprobs, advantages, mask, segments and ref_logprobs must be aligned token by token"
            )


def _no_tokens() -> dict[str, float]:
    names = ("loss", "pg_loss", "kl", "clip_fraction", "ppo_kl", "ratio_max", "tokens", "rows")
    return dict.fromkeys(names, 0.0)


def _rows(logprobs: Tensor, segments: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Row number of each chosen token, 0 .. rows - 1, and each row's number of chosen tokens."""
    if segments is None:
        shape = logprobs.shape
        if logprobs.ndim == 1:
            segments = torch.zeros(shape, dtype=torch.long, device=logprobs.device)
        else:
            lines = torch.arange(shape[0], device=logprobs.device)
            segments = lines.reshape(-1, *[1] * (logprobs.ndim - 1)).expand(shape)
    _, row, lengths = torch.unique(segments[chosen], return_inverse=True, return_counts=True)
    return row, lengths


def _token_weights(
    row: Tensor, lengths: Tensor, aggregation: Aggregation, denominator: float | None
) -> Tensor:
    """What each token's loss is multiplied by before the sum; float64."""
    if aggregation == "token-mean":
        return torch.full_like(row, 1.0 / (denominator or row.numel()), dtype=torch.float64)
    rows = denominator or lengths.numel()
    if aggregation == "seq-mean-token-mean":
        return (1.0 / (lengths.double() * rows))[row]
    if aggregation == "seq-mean-token-sum":
        return torch.full_like(row, 1.0 / rows, dtype=torch.float64)
    raise ValueError(
        f"aggregation is '{aggregation}'; use token-mean, seq-mean-token-mean or seq-mean-token-sum"
    )


def _sequence_log_ratio(new: Tensor, log_ratio: Tensor, row: Tensor, lengths: Tensor) -> Tensor:
    """The row's mean log-ratio at each token; the gradient flows through the token's own log-prob."""
    total = torch.zeros(lengths.numel(), dtype=new.dtype, device=new.device)
    mean = total.index_add(0, row, log_ratio.detach()) / lengths
    return mean[row] + (new - new.detach())
