"""The shape of a model, as far as its cost goes: from its config, or by name."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.preflight.memory import parameters


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What costs depend on."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    parameters: float
    active: float
    """Weights that a token passes through; fewer than ``parameters`` in a mixture of experts."""

    @property
    def kv_bytes(self) -> float:
        """Keys and values of one token, in 16 bit."""
        return 2.0 * 2 * self.layers * self.kv_heads * self.head_dim

    def forward_flops(self, tokens: float, context: float) -> float:
        """Operations of a forward pass over ``tokens`` that each attend to ``context`` tokens on average."""
        return tokens * (2.0 * self.active + 4.0 * self.layers * self.heads * self.head_dim * context)

    def weights_read(self, batch: float) -> float:
        """Bytes of weights that one decoding step over ``batch`` sequences reads, in 16 bit."""
        return 2.0 * min(self.parameters, self.active * max(batch, 1.0))


def _dense(name: str, layers: int, heads: int, kv_heads: int, billions: float) -> ModelShape:
    return ModelShape(name, layers, heads, kv_heads, 128, billions * 1e9, billions * 1e9)


KNOWN = {
    shape.name: shape
    for shape in (
        _dense("Qwen2.5-1.5B", 28, 12, 2, 1.54),
        _dense("Qwen2.5-3B", 36, 16, 2, 3.09),
        _dense("Qwen2.5-7B", 28, 28, 4, 7.62),
        _dense("Qwen3-0.6B", 28, 16, 8, 0.60),
        _dense("Qwen3-1.7B", 28, 16, 8, 1.72),
        _dense("Qwen3-4B", 36, 32, 8, 4.02),
        _dense("Qwen3-8B", 36, 32, 8, 8.19),
        _dense("Qwen3-14B", 40, 40, 8, 14.77),
        _dense("Qwen3-32B", 64, 64, 8, 32.76),
        ModelShape("Qwen3-30B-A3B", 48, 32, 4, 128, 30.53e9, 3.35e9),
        _dense("Llama-3.1-8B", 32, 32, 8, 8.03),
    )
}
"""Published shapes."""


def model_shape(name: str) -> ModelShape:
    """A known model, or the one in a folder. Raises ``ConfigError``."""
    if (Path(name) / "config.json").is_file():
        return _read(Path(name))
    short = name.rsplit("/", 1)[-1]
    by_lower = {known.lower(): known for known in KNOWN}
    if short.lower() in by_lower:
        return KNOWN[by_lower[short.lower()]]
    near = difflib.get_close_matches(short.lower(), by_lower, n=1, cutoff=0.4)
    hint = f"did you mean '{by_lower[near[0]]}'?" if near else ""
    raise ConfigError(
        f"no model '{name}' is known and there is no folder of that name with a config.json; {hint} known shapes: "
        f"{', '.join(KNOWN)}"
    )


def _read(folder: Path) -> ModelShape:
    config = json.loads((folder / "config.json").read_text())
    shape: dict[str, Any] = config.get("text_config") or config
    hidden = int(shape.get("hidden_size") or shape.get("n_embd") or 0)
    layers = int(shape.get("num_hidden_layers") or shape.get("n_layer") or 0)
    heads = int(shape.get("num_attention_heads") or shape.get("n_head") or 1)
    total = float(parameters(folder))
    experts, chosen = int(shape.get("num_experts") or 0), int(shape.get("num_experts_per_tok") or 0)
    idle = layers * max(0, experts - chosen) * 3 * hidden * int(shape.get("moe_intermediate_size") or 0)
    return ModelShape(
        folder.name, layers, heads, int(shape.get("num_key_value_heads") or heads),
        int(shape.get("head_dim") or hidden // heads), total, max(total - idle, 0.0),
    )  # fmt: skip
