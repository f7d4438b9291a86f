"""Make the built-in agent: a Hugging Face folder with a tiny Qwen3 model and its tokenizer, by code alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.policy.quiet import without_progress_bars
from turnpoint.policy.small.tokenizer import make_tokenizer
from turnpoint.policy.small.vocabulary import closed_vocabulary

INITIALIZER_RANGE = 0.06
"""Three times the usual value: with tied embeddings this narrow, smaller ones give logits that hardly differ."""


def build_small_agent(
    texts: Iterable[str],
    *,
    layers: int = 2,
    width: int = 128,
    heads: int = 4,
    kv_heads: int = 2,
    ffn: int = 384,
    seed: int,
    context_length: int,
    folder: Path,
    max_vocabulary: int = 1000,
) -> Path:
    """Write an untrained agent whose vocabulary is the words of ``texts``; gives ``folder``.

    The same arguments give the same bytes. Raises ``ConfigError`` for sizes that do not fit each other.
    """
    import torch
    from transformers import Qwen3ForCausalLM

    if width % heads or heads % kv_heads or (width // heads) % 2:
        raise ConfigError(
            f"policy sizes do not fit: width {width} must be a multiple of heads {heads} (by an even number), "
            f"and heads a multiple of kv_heads {kv_heads}"
        )
    words = closed_vocabulary(texts, max_vocabulary)
    tokenizer = make_tokenizer(words, context_length)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(  # type: ignore[no-untyped-call]
            _config(tokenizer, len(words), layers, width, heads, kv_heads, ffn, context_length)
        )
    folder.mkdir(parents=True, exist_ok=True)
    with without_progress_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _config(
    tokenizer: Any, words: int, layers: int, width: int, heads: int, kv_heads: int, ffn: int, context: int
) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=width // heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=INITIALIZER_RANGE,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
