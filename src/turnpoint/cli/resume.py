"""``turnpoint resume``: go on with a run from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import user_faults


def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changed settings, as section.setting=value (train.steps=200).")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder; default: the newest.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on although the environment's data changed.")
    ] = False,
) -> None:
    """Go on with a run; the result equals that of a run that was never stopped.

    Whatever the folder holds of later steps is moved to its subfolder abandoned/. Changed settings are written to
    config.yaml, and the earlier file is kept.

    Example: turnpoint resume runs/quickstart train.steps=40
    """
    from turnpoint.cli.train import start
    from turnpoint.config import ConfigError
    from turnpoint.training.settings import load_run_config

    with user_faults():
        if not (folder / "config.yaml").is_file():
            raise ConfigError(f"{folder} is not a run folder: it has no config.yaml; start a run with train")
        config = load_run_config(folder / "config.yaml", overrides or [])
        from turnpoint.training.run import build_run

        start(build_run(config, folder), resume=True, checkpoint=checkpoint, force=force)
