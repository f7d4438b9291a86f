"""YAML recipes, ``base:`` inheritance and dotted overrides."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from turnpoint.config.explain import names_secret, redact
from turnpoint.config.strict import ConfigError


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a recipe; a ``base`` key names another recipe (relative to this one) that it is laid over."""
    return _load(Path(path), seen=())


def _load(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    resolved = path.resolve()
    if resolved in seen:
        raise ConfigError(f"{path}: recipes name each other as base: {' -> '.join(map(str, seen))}")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read config {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {_fault(error)}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds {type(data).__name__}, not a mapping of settings")
    base = data.pop("base", None)
    if base is None:
        return data
    return merge(_load(path.parent / str(base), (*seen, resolved)), data)


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay ``above`` over ``below``; a section whose ``kind`` changes is replaced whole."""
    result = copy.deepcopy(below)
    for key, value in above.items():
        old = result.get(key)
        if (
            isinstance(value, dict)
            and isinstance(old, dict)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            result[key] = merge(old, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply ``a.b.c=value`` strings (values are YAML) to a copy of ``data``.

    Changing ``section.kind`` replaces the section, since settings of another kind would not fit it.
    """
    result = copy.deepcopy(data)
    for text in overrides:
        path, sign, value = text.partition("=")
        keys = path.strip().split(".")
        shown = f"{path}=…" if sign and names_secret(path) else redact(text)
        if not sign or not all(keys):
            raise ConfigError(f"override '{shown}' is not of the form section.setting=value")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"override '{shown}': the value is not valid YAML: {_fault(error)}") from error
        _set(result, keys, parsed, shown)
    return result


def _fault(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """What is wrong and where, without the text around it, which may hold a secret."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return redact(str(error))
    mark = error.problem_mark
    return error.problem + (f" in line {mark.line + 1}, column {mark.column + 1}" if mark else "")


def _set(data: dict[str, Any], keys: list[str], value: Any, shown: str) -> None:
    *path, last = keys
    for key in path:
        inner = data.setdefault(key, {})
        if isinstance(inner, str):  # `method: grpo` is short for `method: {kind: grpo}`
            inner = data[key] = {"kind": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"override '{shown}': '{key}' is a single value, not a section")
        data = inner
    if last == "kind" and data.get("kind") not in (None, value):
        data.clear()
    data[last] = value
