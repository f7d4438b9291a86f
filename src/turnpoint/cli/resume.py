"""``turnpoint resume``: go on with a run from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
        refuse_other_kinds(folder, overrides or [])
        config = load_run_config(folder / "config.yaml", overrides or [])
        from turnpoint.training.run import build_run

        start(build_run(config, folder), resume=True, checkpoint=checkpoint, force=force)


def refuse_other_kinds(folder: Path, overrides: list[str]) -> None:
    """Raise ``ConfigError`` if ``overrides`` name another kind of method, env or policy than the run folder's config.

    The settings of the saved kind would not fit the other one, and the complaint about each of them would hide this.
    """
    from turnpoint.config import apply_overrides, load_yaml
    from turnpoint.training.checkpoint import check_kinds, list_checkpoints

    saved = load_yaml(folder / "config.yaml")
    found = list_checkpoints(folder / "checkpoints")
    newest = found[-1][1] if found else folder
    check_kinds(_kinds(saved), _kinds(apply_overrides(saved, overrides)), newest)


def _kinds(config: dict[str, Any]) -> dict[str, str]:
    sections = {part: config.get(part) for part in ("method", "env", "policy")}
    return {part: str(s["kind"]) for part, s in sections.items() if isinstance(s, dict) and "kind" in s}
