"""Reading a Hugging Face model folder, with messages that say what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from turnpoint.config import ConfigError
from turnpoint.policy.quiet import without_progress_bars

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
LONGEST_CONTEXT = 32_768


def choose_device(name: str) -> torch.device:
    """Device of a ``device`` setting; ``auto`` takes a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(
            f"policy.device is '{name}', which torch does not know; use cpu, cuda or auto"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"policy.device is '{name}' but torch sees no GPU here; use cpu or auto")
    return device


def check_folder(folder: Path) -> None:
    """Raise ``ConfigError`` unless the folder has a config, safetensors weights and a tokenizer."""
    if not folder.is_dir():
        raise ConfigError(
            f"policy.model is '{folder}', which is not a folder; models are not downloaded: "
            "give the path of a Hugging Face model folder (config.json, *.safetensors, tokenizer.json)"
        )
    config_file = folder / "config.json"
    if not config_file.is_file():
        raise ConfigError(
            f"policy.model is '{folder}', which has no config.json; save the model with save_pretrained"
        )
    if "auto_map" in json.loads(config_file.read_text()):
        raise ConfigError(
            f"policy.model is '{folder}', whose config asks to run code of its own (auto_map); this is never done. "
            "Use an architecture that transformers has"
        )
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"policy.model is '{folder}', which has no *.safetensors weights; "
            "load it once with transformers and save it with save_pretrained"
        )
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ConfigError(
            f"policy.model is '{folder}', which has no tokenizer ({TOKENIZER_FILES[0]}); "
            "save the tokenizer into the same folder with save_pretrained"
        )


def load_model(folder: Path, dtype: torch.dtype) -> Any:
    """The causal language model in a folder, on the CPU."""
    from transformers import AutoModelForCausalLM

    try:
        with without_progress_bars():
            return AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigError(
            f"policy.model: '{folder}' cannot be read as a causal language model: {error}"
        ) from error


def load_tokenizer(folder: Path, model: Any) -> Any:
    """The tokenizer in a folder; refuses one with more tokens than the model."""
    return load_tokenizer_of(folder, model.get_output_embeddings().weight.shape[0])


def load_tokenizer_of(folder: Path, size: int) -> Any:
    """The tokenizer in the folder of a model of ``size`` tokens; refuses one with more."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"policy.model: the tokenizer in '{folder}' cannot be read: {error}") from error
    if len(tokenizer) > size:
        raise ConfigError(
            f"policy.model: '{folder}' has a tokenizer of {len(tokenizer)} tokens and a model of {size}; "
            "use the tokenizer the model was trained with"
        )
    tokenizer.clean_up_tokenization_spaces = False  # it would drop spaces before punctuation that was sampled
    return tokenizer


def end_of_turn_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a turn: those of the generation config, the model config and the tokenizer."""
    return end_of_turn_ids_of(model.config, getattr(model, "generation_config", None), tokenizer)


def end_of_turn_ids_of(config: Any, generation: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a turn by model config, generation config (may be None) and tokenizer."""
    found: set[int] = set()
    for value in (
        getattr(generation, "eos_token_id", None),
        getattr(config, "eos_token_id", None),
        tokenizer.eos_token_id,
    ):
        found |= set(value) if isinstance(value, list | tuple) else set() if value is None else {int(value)}
    if not found:
        raise ConfigError(
            "policy.model names no end-of-turn token, so no turn would ever end; set eos_token in the tokenizer"
        )
    return frozenset(found)


def context_length(config: Any, asked: int | None) -> int:
    """The context length to use: what is asked, within what the model's config says."""
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if asked is None:
        return min(limit or LONGEST_CONTEXT, LONGEST_CONTEXT)
    if limit is not None and asked > limit:
        raise ConfigError(
            f"policy.context_length is {asked} but the model has {limit} positions; set {limit} or less"
        )
    return asked
