"""Checkpoints: a Hugging Face folder with the training state beside it, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file, save_model
from torch import Tensor

from turnpoint.config import ConfigError
from turnpoint.policy.local.lora import Adapters
from turnpoint.policy.quiet import without_progress_bars

STATE = "training_state"
ADAPTER = "adapter"
"""Folder of a checkpoint with the adapters alone, where there are any; the weights beside it have them merged in."""
VERSION = 1


def write(
    folder: Path,
    model: Any,
    tokenizer: Any,
    optimizer: dict[str, Tensor],
    counters: dict[str, Any],
    reference: Any,
    adapters: Adapters | None = None,
) -> None:
    """Write everything into a sibling folder first, then put it in the place of ``folder``.

    With adapters the model is written as one that has them merged in and needs nothing else, and they beside it.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    state = fresh / STATE
    state.mkdir(parents=True)
    with without_progress_bars():
        (model if adapters is None else adapters.merged(model)).save_pretrained(fresh)
    if adapters is not None:
        adapters.save(fresh / ADAPTER)
    tokenizer.save_pretrained(fresh)
    save_file(
        {name: value.contiguous() for name, value in optimizer.items()}, state / "optimizer.safetensors"
    )
    if reference is not None:
        save_model(reference, str(state / "reference.safetensors"))
    (state / "state.json").write_text(json.dumps({"version": VERSION, **counters}, indent=2) + "\n")
    _replace(fresh, folder)


def _replace(fresh: Path, folder: Path) -> None:
    """Rename; a folder that is there already is moved aside first, since a rename needs an empty target."""
    if not folder.exists():
        fresh.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old)


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], Path | None]:
    """Optimizer tensors, counters, and the file of the reference weights if there is one.

    Raises ``ConfigError`` if the folder is no checkpoint, or one that cannot be read.
    """
    state = folder / STATE
    if not (state / "state.json").is_file():
        raise ConfigError(
            f"'{folder}' has no {STATE}/state.json, so it is not a checkpoint; "
            "to start from a plain model folder set policy.model to it"
        )
    try:
        counters: dict[str, Any] = json.loads((state / "state.json").read_text())
        version = counters.pop("version")
        optimizer = load_file(state / "optimizer.safetensors") if version == VERSION else {}
    except (OSError, ValueError, KeyError, AttributeError, TypeError, SafetensorError) as error:
        raise ConfigError(
            f"the training state in '{folder / STATE}' cannot be read: {type(error).__name__}: {error}; resume from "
            "another checkpoint"
        ) from error
    if version != VERSION:
        raise ConfigError(
            f"'{folder}' was written in checkpoint format {version}; this release reads {VERSION}: resume with the "
            "release that wrote it, or start a new run with policy.model set to it"
        )
    reference = state / "reference.safetensors"
    return optimizer, counters, reference if reference.is_file() else None
