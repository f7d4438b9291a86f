"""One model as the engine sees it: hidden states, with or without the pool, and float32 logits."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from turnpoint.config import ConfigError
from turnpoint.policy.local import attention
from turnpoint.policy.local.cache import CachedPrefixes, KVPool, Rows
from turnpoint.policy.local.lora import Adapters

LAYER_TYPES = ("full_attention", "sliding_attention")


class Network:
    """A Hugging Face causal language model split into body and head, perhaps with adapters in it."""

    def __init__(self, model: Any, device: torch.device, adapters: Adapters | None = None) -> None:
        self.model = model
        self.adapters = adapters
        self._adapted = True
        self.device = device
        self.config = model.config.get_text_config()
        self.body: nn.Module = model.base_model
        self.head: Any = model.get_output_embeddings()
        if self.head is None or self.body is model:
            raise ConfigError(
                f"policy.model is a {type(model).__name__}, which has no separate body and output layer; "
                "use a causal language model of the usual form (Llama, Qwen, Gemma, GPT-NeoX and the like)"
            )
        self.dtype: torch.dtype = self.head.weight.dtype
        self.window, self.layer_types = _attention_layers(self.config, type(model).__name__)
        attention.install(model)
        _switch_dropout_off(model)
        model.eval()

    @property
    def vocabulary(self) -> int:
        """Number of logits."""
        return int(self.head.weight.shape[0])

    @contextmanager
    def training(self, *, checkpointing: bool, dropout: int | None = None) -> Iterator[None]:
        """Where gradients are computed. The mode only switches checkpointing on; dropout is off, but for that of
        adapters where ``dropout`` is a seed to draw it from."""
        self.model.train(checkpointing)
        with ExitStack() as stack:
            stack.callback(self.model.eval)
            if self.adapters is not None and dropout is not None:
                stack.enter_context(self.adapters.dropping(dropout))
            yield

    def without_adapters(self) -> Self:
        """The same weights with the adapters off: the model as it was before training, at no cost in memory."""
        other = copy.copy(self)
        other._adapted = False
        return other

    def _run(self, **inputs: Any) -> Tensor:
        """Final hidden states of the body."""
        if self.adapters is None or self._adapted:
            result: Tensor = self.body(**inputs).last_hidden_state
            return result
        with self.adapters.off():
            result = self.body(**inputs).last_hidden_state
        return result

    def pool(self, rows: int, length: int) -> KVPool:
        """An empty key-value pool for this model."""
        return KVPool(self.config.num_hidden_layers, rows, length, self.device)

    def hidden(self, ids: Tensor) -> Tensor:
        """Final hidden states ``[batch, length, width]`` of right-padded ids ``[batch, length]``.

        No mask is needed: attention is causal, so what follows a position cannot reach it.
        """
        return self._run(input_ids=ids, use_cache=False)

    def hidden_with_pool(
        self, ids: Tensor, positions: Tensor, masks: dict[str, Tensor], pool: KVPool, rows: Rows
    ) -> Tensor:
        """Final hidden states ``[batch, q, width]`` of new tokens at the given positions of pool rows.

        ``masks`` holds an additive mask ``[batch, 1, q, reach]`` for each kind of layer (see ``masks``).
        """
        pool.plan(rows, positions, next(iter(masks.values())).shape[-1])
        return self.hidden_with_masks(ids, positions, masks, pool)

    def hidden_with_masks(
        self,
        ids: Tensor,
        positions: Tensor,
        masks: dict[str, Tensor],
        cache: KVPool | CachedPrefixes | None = None,
    ) -> Tensor:
        """Final hidden states ``[batch, q, width]`` of tokens that see what masks ``[batch, 1, q, k]`` say.

        The keys are those of the cache, if any, and then the tokens' own.
        """
        limit = getattr(self.config, "max_position_embeddings", None)
        return self._run(
            input_ids=ids,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=positions if limit is None else positions.clamp(max=limit - 1),
            past_key_values=cache,
            use_cache=cache is not None,
        )

    def masks(self, positions: Tensor, reach: int) -> dict[str, Tensor]:
        """Additive masks: a query at position p sees keys 0 .. p (the last ``window`` of them if sliding)."""
        keys = torch.arange(reach, device=self.device)
        return self.additive_masks(keys <= positions[:, None, :, None], positions, keys)

    def additive_masks(self, visible: Tensor, positions: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """A mask ``[batch, 1, q, k]`` for each kind of layer.

        Visible are the keys that causality leaves, same shape; positions are ``[batch, q]`` of the queries and
        ``[k]`` or ``[batch, 1, 1, k]`` of the keys.
        """
        result = {}
        for kind in dict.fromkeys(self.layer_types):
            seen = visible
            if kind == "sliding_attention":
                assert self.window is not None
                seen = visible & (keys > positions[:, None, :, None] - self.window)
            mask = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
            result[kind] = mask.masked_fill_(~seen, torch.finfo(self.dtype).min)
        return result

    def logits(self, hidden: Tensor, head: Any = None) -> Tensor:
        """Float32 logits ``[..., vocabulary]``, by the model's output layer or an earlier copy of it."""
        logits: Tensor = (self.head if head is None else head)(hidden).float()
        multiply = getattr(self.config, "logit_scale", None)
        if multiply is not None:
            logits = logits * multiply
        divide = getattr(self.config, "logits_scaling", None)
        if divide is not None:
            logits = logits / divide
        cap = getattr(self.config, "final_logit_softcapping", None)
        return logits if cap is None else cap * torch.tanh(logits / cap)


def _attention_layers(config: Any, name: str) -> tuple[int | None, list[str]]:
    """Sliding window (None = no layer has one) and the kind of each layer; refuses other kinds by name."""
    window = getattr(config, "sliding_window", None)
    layers: list[str] | None = getattr(config, "layer_types", None)
    if layers is None:
        kind = "full_attention" if window is None else "sliding_attention"
        layers = [kind] * config.num_hidden_layers
    strange = sorted(set(layers) - set(LAYER_TYPES))
    if strange:
        raise ConfigError(
            f"policy.model is a {name} with {', '.join(strange)} layers; the local engine supports "
            f"{' and '.join(LAYER_TYPES)} layers only. Choose another model"
        )
    if getattr(config, "use_bidirectional_attention", None):
        raise ConfigError(f"policy.model is a {name} with bidirectional attention; it cannot generate text")
    return (window if "sliding_attention" in layers else None), list(layers)


def _switch_dropout_off(model: nn.Module) -> None:
    """Dropout would make log-probs of sampler and trainer differ."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout", "hidden_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
