"""Checkpoints: a Hugging Face folder as the local policy writes it, with verl's shards beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import ray

from turnpoint.config import ConfigError
from turnpoint.policy.verl.engine import VerlEngine
from turnpoint.policy.verl.errors import EngineError
from turnpoint.policy.verl.hooks import installed_version

STATE = "training_state"
SHARDS = "verl"
VERSION = 1


def save(engine: VerlEngine, folder: Path, tokenizer: Any, counters: dict[str, int]) -> None:
    """Merged weights, config and tokenizer in ``folder``; shards, optimizer and counters below it.

    All nodes must see the same folder. Raises ``EngineError`` if they do not, or a worker died.
    """
    folder = folder.absolute()
    shards = folder / STATE / SHARDS
    shutil.rmtree(shards, ignore_errors=True)
    shards.mkdir(parents=True)
    engine.to_trainer()
    try:
        engine.workers.save_checkpoint(str(shards), global_step=engine.version, max_ckpt_to_keep=None)
    except ray.exceptions.RayError as error:
        raise EngineError(f"a training worker failed while writing {folder}: {error}") from error
    merged = shards / "huggingface"
    if not any(merged.glob("*.safetensors")):
        raise EngineError(
            f"verl wrote no merged model to {merged}; run folders must be on a file system of all nodes"
        )
    for path in merged.iterdir():
        path.replace(folder / path.name)
    merged.rmdir()
    _keep_config(Path(engine.settings.model), folder)
    tokenizer.save_pretrained(folder)
    state = {
        "version": VERSION,
        "backend": "verl",
        "verl": installed_version(),
        "gpus": engine.settings.gpus,
        "reference": str(Path(engine.settings.model).resolve()) if engine.settings.with_reference else None,
        **counters,
    }
    (folder / STATE / "state.json").write_text(json.dumps(state, indent=2) + "\n")


def _keep_config(model: Path, folder: Path) -> None:
    """The model's own config, with the type that the weights have here; verl writes its overrides into it."""
    config: dict[str, Any] = json.loads((model / "config.json").read_text())
    config.pop("torch_dtype", None)
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=2) + "\n")


def load(engine: VerlEngine, folder: Path) -> dict[str, int]:
    """Put the trainer back; returns the counters. Raises ``ConfigError`` if the folder does not fit."""
    folder = folder.absolute()
    path = folder / STATE / "state.json"
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        counters = {name: int(state[name]) for name in ("updates", "optimizer_steps")}
        version, backend, gpus = state["version"], state.get("backend", "local"), state.get("gpus")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"'{folder}' is no checkpoint of a verl policy ({type(error).__name__}: {error}); to start from its "
            "weights set policy.model to it"
        ) from error
    if backend != "verl" or version != VERSION:
        raise ConfigError(
            f"'{folder}' was written by backend {backend}, format {version}; this is verl's, format {VERSION}: "
            "start a new run with policy.model set to it"
        )
    if gpus != engine.settings.gpus:
        raise ConfigError(
            f"'{folder}' was written by {gpus} GPUs and policy.nodes * policy.gpus_per_node is {engine.settings.gpus}; "
            "resume with as many, or start a new run with policy.model set to it"
        )
    reference = str(Path(engine.settings.model).resolve())
    if engine.settings.with_reference and state.get("reference") not in (None, reference):
        raise ConfigError(
            f"the run's reference model is '{state['reference']}', but policy.model is '{reference}'; set it back"
        )
    engine.to_trainer()
    try:
        engine.workers.load_checkpoint(str(folder / STATE / SHARDS))
    except ray.exceptions.RayError as error:
        raise EngineError(f"a training worker failed while reading {folder}: {error}") from error
    engine.weights_changed()
    return counters
