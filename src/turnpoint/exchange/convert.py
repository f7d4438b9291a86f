"""Foreign files as files of episodes, so that every command that reads episodes reads them too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnpoint.exchange.formats import NATIVE, detect_format, read_foreign
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import EpisodeWriter, RecordError

_SUFFIXES = (".jsonl", ".json", ".eval", ".parquet")
_NOT_EPISODES = ("metrics.jsonl",)


def as_native(path: Path, out: Path, report: ExchangeReport, *, name: str | None = None) -> Path:
    """Convert a file of any known format into ``out`` (JSONL of episodes), one at a time; returns ``out``."""
    with EpisodeWriter(out) as writer:
        for episode in read_foreign(path, report, name=name):
            try:
                writer.write(episode)
            except (ValueError, TypeError) as error:  # what JSON has no form for
                report.episodes -= 1
                report.drop(str(error), episode.id)
    return out


@contextmanager
def native_target(target: Path, report: ExchangeReport, *, name: str | None = None) -> Iterator[Path]:
    """``target`` itself where it holds episodes; else a folder or file of them, kept while the block runs.

    Run folders and files of episodes are passed through. Raises ``RecordError`` for a file of no known format, or a
    folder without any known one.
    """
    if target.is_dir():
        foreign = _foreign_files(target)
        if not foreign:
            yield target
            return
        with tempfile.TemporaryDirectory(prefix="turnpoint-") as folder:
            for number, path in enumerate(foreign):
                try:
                    as_native(path, Path(folder) / f"{number:05d}-{path.stem}.jsonl", report, name=name)
                except RecordError as error:
                    report.drop("of no known format", f"{path.name}: {error}")
            yield Path(folder)
        return
    if not target.is_file() or (name or detect_format(target).name) == NATIVE.name:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="turnpoint-") as folder:
        yield as_native(target, Path(folder) / f"{target.stem}.jsonl", report, name=name)


def _foreign_files(folder: Path) -> list[Path]:
    """Files to convert: none in a run folder, or where every JSONL file holds episodes."""
    if any((folder / name).is_dir() for name in ("eval", "episodes")):
        return []
    found = sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and p.name not in _NOT_EPISODES)
    if all(p.suffix == ".jsonl" and _is_native(p) for p in found):
        return []
    return found


def _is_native(path: Path) -> bool:
    try:
        return detect_format(path).name == NATIVE.name
    except RecordError:
        return True  # whoever reads it says what is wrong with it
