"""Metrics: one JSON line per step always, other loggers as they are installed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Protocol


class MetricsLog:
    """``metrics.jsonl``; ``keep_until`` drops lines of steps that a resumed run will repeat."""

    def __init__(self, path: Path, *, keep_until: int | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            kept = [] if keep_until is None else [r for r in read_metrics(path) if r["step"] <= keep_until]
            path.write_text("".join(json.dumps(record) + "\n" for record in kept))
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
    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def log(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


def open_loggers(names: list[str], folder: Path) -> tuple[list[Logger], list[str]]:
    """Loggers by name, and a note for each that is not installed."""
    loggers: list[Logger] = []
    notes = []
    for name in names:
        if name != "tensorboard":
            notes.append(f"logger '{name}' is unknown and was skipped; known: tensorboard")
            continue
        try:
            loggers.append(_TensorBoard(folder))
        except ImportError:
            notes.append("logger 'tensorboard' is not installed and was skipped; pip install tensorboard")
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
