"""Opening the model of a finished run for analyses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnpoint.training.run import Run


def open_run(
    folder: Path,
    overrides: list[str],
    checkpoint: Path | None = None,
    *,
    initial: bool = False,
    speaker: Path | None = None,
) -> Run:
    """A run with its newest checkpoint (or ``checkpoint``, or the initial weights), without its scoring teachers.

    A model that lies in the checkpoint is taken from there, so that nothing has to be made anew. ``speaker``:
    another run whose policy and prompt settings speak instead, in this run's environment. Raises ``ConfigError`` if
    there is no checkpoint.
    """
    from turnpoint.config import load_yaml
    from turnpoint.training.loop import Trainer
    from turnpoint.training.run import build_run
    from turnpoint.training.settings import load_run_config
    from turnpoint.training.view import View

    data: dict[str, Any] = load_yaml(folder / "config.yaml")
    home = folder
    if speaker is not None:
        theirs, home = load_yaml(speaker / "config.yaml"), speaker
        data |= {key: theirs[key] for key in ("policy", "prompt", "method", "cache", "seed") if key in theirs}
    config = load_run_config(data, overrides)
    if initial:
        return build_run(config, home, training=False)
    found = newest_checkpoint(home) if checkpoint is None else checkpoint
    model = found / "policy"
    if (model / "config.json").is_file() and "model" in type(config.policy).model_fields:
        config = config.model_copy(update={"policy": config.policy.model_copy(update={"model": str(model)})})
        return build_run(config, home, training=False)
    run = build_run(config, home, training=False)
    Trainer(run, View()).resume(found)
    return run


def newest_checkpoint(folder: Path) -> Path:
    """The newest checkpoint of a run. Raises ``ConfigError`` if there is none."""
    from turnpoint.config import ConfigError
    from turnpoint.training.checkpoint import list_checkpoints

    found = list_checkpoints(folder / "checkpoints")
    if not found:
        raise ConfigError(f"{folder} has no checkpoint; --initial plays with the initial weights")
    return found[-1][1]
