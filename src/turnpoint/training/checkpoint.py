"""Checkpoints: everything a bitwise resume needs, written whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.methods import Method
from turnpoint.policy import Policy
from turnpoint.teachers.protocol import KeepsState

_NAME = re.compile(r"step_(\d{6})")


def save_checkpoint(
    folder: Path,
    step: int,
    policy: Policy,
    method: Method,
    teachers: Mapping[str, object],
    *,
    kinds: Mapping[str, str],
    keep: int,
) -> Path:
    """Write ``folder/step_NNNNNN`` (model, optimizer, state of the method and of ``teachers`` that have one, and
    which ``kinds`` of parts they belong to), then remove all but the newest ``keep``; the one just written stays in
    any case."""
    target = folder / f"step_{step:06d}"
    temporary = folder / f".{target.name}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    policy.save(temporary / "policy")
    kept = {name: t.state_dict() for name, t in teachers.items() if isinstance(t, KeepsState)}
    state = {"step": step, "kinds": dict(kinds), "method": method.state_dict(), "teachers": kept}
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


def load_checkpoint(
    path: Path, policy: Policy, method: Method, teachers: Mapping[str, object], *, kinds: Mapping[str, str]
) -> int:
    """Put policy, method and teachers into the state of a checkpoint; returns its step.

    Raises ``ConfigError`` if it is none, or if it was saved by other ``kinds`` of parts or with settings whose state
    does not fit those of now.
    """
    try:
        state: dict[str, Any] = json.loads((path / "state.json").read_text())
        step, of_method, of_teachers = int(state["step"]), state["method"], state.get("teachers", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a complete checkpoint: {type(error).__name__}: {error}; resume from an earlier one"
        ) from error
    check_kinds(state.get("kinds", {}), kinds, path)
    policy.load(path / "policy")
    with _state_of(path, f"method '{kinds.get('method')}'", of_method):
        method.load_state_dict(of_method)
    for name, kept in of_teachers.items():
        if isinstance(teacher := teachers.get(name), KeepsState):
            with _state_of(path, name, kept):
                teacher.load_state_dict(kept)
    return step


def check_kinds(saved: Mapping[str, str], now: Mapping[str, str], checkpoint: Path) -> None:
    """Raise ``ConfigError`` if ``checkpoint`` was saved by parts (method, env, policy) of other kinds than ``now``.

    Parts that either side does not name are not compared.
    """
    for part in saved.keys() & now.keys():
        if saved[part] != now[part]:
            raise ConfigError(
                f"{checkpoint} was saved with {part}.kind={saved[part]}, but {part}.kind is {now[part]}; resume with "
                f"{part}.kind={saved[part]}, or start a new run from its weights: turnpoint train with your settings "
                f"and policy.model={checkpoint / 'policy'}"
            )


@contextmanager
def _state_of(path: Path, part: str, saved: object) -> Iterator[None]:
    """Say in a sentence that the saved state of ``part`` does not fit the settings of now."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        names = ", ".join(sorted(saved)) if isinstance(saved, dict) else type(saved).__name__
        raise ConfigError(
            f"what {path} holds of the {part} ({names or 'nothing'}) does not fit its settings of now "
            f"({type(error).__name__}: {error}); resume with the settings the run was started with, or start a new "
            f"run from its weights: turnpoint train with your settings and policy.model={path / 'policy'}"
        ) from error
