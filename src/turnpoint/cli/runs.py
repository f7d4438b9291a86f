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
    """A run with its newest checkpoint (or ``checkpoint``, or the initial weights), without its training teachers.

    ``speaker``: another run whose policy and prompt settings speak instead, in this run's environment. Raises
    ``ConfigError`` if there is no checkpoint, or one that does not fit.
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
    run = build_run(load_run_config(data, overrides), home, training=False)
    if not initial:
        Trainer(run, View()).resume(checkpoint)
    return run
