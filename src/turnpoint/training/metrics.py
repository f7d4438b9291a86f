"""Metrics: one JSON line per step always, other loggers as they are installed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol


class MetricsLog:
    """``metrics.jsonl``; ``keep_until`` drops lines of steps that a resumed run will repeat."""

    def __init__(self, path: Path, *, keep_until: int | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.kept: list[dict[str, Any]] = []
        """Records of the steps before the resumed one."""
        if path.exists():
            if keep_until is not None:
                self.kept = [r for r in read_metrics(path) if r["step"] <= keep_until]
            path.write_text("".join(json.dumps(record) + "\n" for record in self.kept))
        self._file = path.open("a")

    def write(self, step: int, kind: str, values: dict[str, Any]) -> None:
        """Append a record; non-finite numbers become null."""
        record = {"step": step, "kind": kind, **values}
        self._file.write(json.dumps(_finite(record)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete records of a metrics file; a torn last line is left out."""
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Logger(Protocol):
    """Another place for scalars."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Scalars of a step."""

    def close(self) -> None:
        """Flush and close."""


class _TensorBoard:
    def __init__(self, folder: Path, done: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if done is None else done + 1  # steps that were logged before and are now repeated
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def log(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


LOGGERS: dict[str, Callable[[Path, int | None], Logger]] = {"tensorboard": _TensorBoard}
"""Loggers beside ``metrics.jsonl``: each is made from the run folder and the step a run was resumed after."""


def open_loggers(
    names: Sequence[str], folder: Path, *, done: int | None = None
) -> tuple[list[Logger], list[str]]:
    """Loggers by name, and a note for each that is not installed; ``done``: the step a run was resumed after."""
    loggers: list[Logger] = []
    notes = []
    for name in names:
        try:
            loggers.append(LOGGERS[name](folder, done))
        except ImportError:
            notes.append(f"logger '{name}' is not installed and was skipped; pip install {name}")
    return loggers, notes


def scalars(values: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Nested numbers flattened to ``a/b`` names."""
    flat: dict[str, float] = {}
    for key, value in values.items():
        name = f"{prefix}/{key}" if prefix else key
        if isinstance(value, dict):
            flat |= scalars(value, name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[name] = float(value)
    return flat
