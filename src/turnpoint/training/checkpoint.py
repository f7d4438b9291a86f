"""Checkpoints: everything a bitwise resume needs, written whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.methods import Method
from turnpoint.policy import Policy
from turnpoint.teachers.protocol import KeepsState

_NAME = re.compile(r"step_(\d{6})")


def save_checkpoint(
    folder: Path, step: int, policy: Policy, method: Method, teachers: Mapping[str, object], *, keep: int
) -> Path:
    """Write ``folder/step_NNNNNN`` (model, optimizer, state of the method and of ``teachers`` that have one), then
    remove all but the newest ``keep``; the one just written stays in any case."""
    target = folder / f"step_{step:06d}"
    temporary = folder / f".{target.name}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    policy.save(temporary / "policy")
    kept = {name: t.state_dict() for name, t in teachers.items() if isinstance(t, KeepsState)}
    state = {"step": step, "method": method.state_dict(), "teachers": kept}
    (temporary / "state.json").write_text(json.dumps(state))
    if target.exists():
        shutil.rmtree(target)
    temporary.replace(target)
    for _, old in list_checkpoints(folder)[:-keep]:
        if old != target:
            shutil.rmtree(old)
    return target


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, folder) of every complete checkpoint, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(m.group(1)), p) for p in folder.iterdir() if (m := _NAME.fullmatch(p.name))]
    return sorted((step, path) for step, path in found if (path / "state.json").is_file())


def load_checkpoint(path: Path, policy: Policy, method: Method, teachers: Mapping[str, object]) -> int:
    """Put policy, method and teachers into the state of a checkpoint; returns its step."""
    try:
        state: dict[str, Any] = json.loads((path / "state.json").read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is not a complete checkpoint: {error}; resume from an earlier one"
        ) from error
    policy.load(path / "policy")
    method.load_state_dict(state["method"])
    for name, kept in state.get("teachers", {}).items():
        if isinstance(teacher := teachers.get(name), KeepsState):
            teacher.load_state_dict(kept)
    return int(state["step"])
