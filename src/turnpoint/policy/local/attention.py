"""Attention over the key-value pool without copying it once per query head."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "turnpoint"


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Scaled dot-product attention; query heads that share a key-value head become queries of that head.

    query ``[batch, heads, q, dim]``, key and value ``[batch, kv_heads, k, dim]``, mask additive and
    broadcastable to ``[batch, 1, q, k]``; returns ``[batch, q, heads, dim]``. Without a mask, or with one per
    head, it is the stock implementation. Repeating keys for a mask is what makes the stock one slow here: it
    copies the whole pool in every layer of every step.
    """
    shared = query.shape[1] // key.shape[1]
    if attention_mask is None or attention_mask.shape[1] != 1 or torch.is_grad_enabled():
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return output, None
    batch, heads, length, dim = query.shape
    grouped = query.reshape(batch, heads // shared, shared * length, dim)
    if shared > 1 and length > 1:
        attention_mask = attention_mask.repeat(1, 1, shared, 1)
    output = F.scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return output.reshape(batch, heads, length, output.shape[-1]).transpose(1, 2).contiguous(), None


def install(model: Any) -> None:
    """Let ``model`` use it; models without pluggable attention keep their own."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    if getattr(model, "_supports_attention_backend", False) and getattr(model, "_supports_sdpa", False):
        model.set_attn_implementation(NAME)
