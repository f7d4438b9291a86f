"""What a run folder says about its run, and what becomes of it when the run is resumed."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

import turnpoint
from turnpoint.config import ConfigError
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import Run

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pydantic")
_STEP = re.compile(r"\.?step_(\d{6,})\b.*")
_BY_STEP = ("checkpoints", "episodes", "eval")
"""Folders whose entries are named after steps. Checkpoints are moved first: the newest one is taken by default."""


def write_header(run: Run) -> None:
    """Write the resolved config and the versions and data hashes of the run into its folder."""
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "config.yaml").write_text(_config_text(run))
    (run.folder / "header.json").write_text(_header_text(run))


def continue_folder(run: Run, step: int, *, force: bool = False) -> list[str]:
    """Make the folder that of a run that was resumed after ``step``; returns notes for the reader.

    What lies beyond ``step`` is moved into ``abandoned/``. Where config or versions changed, the earlier ones are
    kept as ``config.step_N.yaml`` and ``header.step_N.json``. Raises ``ConfigError``, before anything is moved, if
    the data of the environment is not the data the run was started with, unless ``force``.
    """
    notes = _compare(run, force)
    moved = set_aside(run.folder, step)
    if moved is not None:
        notes.append(f"what an earlier run made after step {step} was moved to {moved}")
    _replace(run.folder / "config.yaml", _config_text(run), step, yaml.safe_load)
    _replace(run.folder / "header.json", _header_text(run), step, json.loads)
    return notes


def set_aside(folder: Path, step: int) -> Path | None:
    """Move checkpoints, episodes and evaluations of steps after ``step`` into ``abandoned/TIME``, with a copy of
    the metrics; returns that folder, or None if there was nothing to move."""
    later = [path for name in _BY_STEP for path in _after(folder / name, step)]
    metrics = folder / "metrics.jsonl"
    unsaved = metrics.is_file() and any(record["step"] > step for record in read_metrics(metrics))
    if not later and not unsaved:
        return None
    target = _free(folder / "abandoned" / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    target.mkdir(parents=True)
    for path in later:
        place = target / path.parent.name
        place.mkdir(exist_ok=True)
        path.rename(place / path.name)
    if unsaved:
        shutil.copy2(metrics, target / metrics.name)
    return target


def _after(folder: Path, step: int) -> list[Path]:
    """Entries of steps after ``step``, the newest first."""
    if not folder.is_dir():
        return []
    found = [(int(m.group(1)), p) for p in folder.iterdir() if (m := _STEP.fullmatch(p.name))]
    return [path for number, path in sorted(found, reverse=True) if number > step]


def _free(path: Path) -> Path:
    """``path``, or with a number if it is taken."""
    taken, number = path, 2
    while taken.exists():
        taken, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return taken


def _replace(path: Path, text: str, step: int, parse: Callable[[str], Any]) -> None:
    """Write ``text``; a file that says something else is kept beside it."""
    if path.is_file():
        earlier = path.read_text()
        try:
            if parse(earlier) == parse(text):
                return
        except (ValueError, yaml.YAMLError):
            pass  # damaged: it is kept like any other
        shutil.copy2(path, _free(path.with_name(f"{path.stem}.step_{step:06d}{path.suffix}")))
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)


def _compare(run: Run, force: bool) -> list[str]:
    """Notes on what is not as in the run's header. Raises ``ConfigError`` for other data, unless ``force``."""
    path = run.folder / "header.json"
    try:
        before = json.loads(path.read_text())
        versions, data = dict(_versions(before)), dict(_hashes(before["env"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"{path} cannot be read ({error}), so versions and data were not compared with those of now"]
    now = json.loads(_header_text(run))
    changed = _differences(data, dict(_hashes(now["env"])))
    notes = []
    if changed:
        text = (
            f"the data of environment '{run.suite.name}' is not what the run was started with: {changed}; "
            "give the run its data back"
        )
        if not force:
            raise ConfigError(f"{text}, or go on with the new data with --force")
        notes.append(f"{text} if this was not meant")
    others = _differences(versions, dict(_versions(now)))
    if others:
        notes.append(f"versions changed since the run was started, so that results may differ: {others}")
    return notes


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} was {before.get(name)}, is {now.get(name)}" for name in names)


def _versions(header: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("turnpoint", "python", "platform"):
        yield name, header.get(name)
    yield from header["packages"].items()


def _hashes(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of everything in an environment's header that is under a hash's name."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _hashes(item, f"{path}.{key}" if path else str(key))
    elif "sha256" in path or "hash" in path:
        yield path, value


def _config_text(run: Run) -> str:
    return yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _header_text(run: Run) -> str:
    header = {
        "turnpoint": turnpoint.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "env": run.suite.header(),
        "seed": run.config.seed,
    }
    return json.dumps(header, indent=1, default=str)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
