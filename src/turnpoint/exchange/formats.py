"""Which formats there are, how one is told from another, and reading and writing by name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnpoint.exchange import atif, chat, inspect_log, parquet, verifiers, verl
from turnpoint.exchange.lines import write_lines
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, EpisodeReader, RecordError, episode_to_dict

Read = Callable[[Path, ExchangeReport], Iterator[Episode]]
Write = Callable[[Iterable[Episode], Path, ExchangeReport], None]
_HEAD = 4_000_000
"""Bytes of a file that are looked at to tell its format."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of trajectories."""

    name: str
    title: str
    read: Read | None
    write: Write | None
    matches: Callable[[dict[str, Any]], bool] = lambda record: False
    """Whether a JSON record is of this format."""
    suffixes: tuple[str, ...] = (".jsonl",)


def _read_native(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    reader = EpisodeReader(path, strict=False)
    for episode in reader:
        report.episodes += 1
        yield episode
    for problem in reader.report.problems:
        report.drop("unreadable line", problem)


def _write_native(episodes: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    write_lines(episodes, episode_to_dict, path, report)


NATIVE = Format(
    "turnpoint",
    "turnpoint episodes (JSONL)",
    _read_native,
    _write_native,
    lambda r: isinstance(r.get("version"), int) and isinstance(r.get("task"), dict) and "id" in r,
)
_FORMATS = (
    NATIVE,
    Format(
        "atif",
        "ATIF trajectories (Harbor): one JSON file, a folder of them, or JSONL",
        atif.read,
        atif.write,
        atif.matches,
        (".json", ".jsonl"),
    ),
    Format(
        "verifiers",
        "verifiers results (JSONL, or a JSON list)",
        verifiers.read,
        verifiers.write,
        verifiers.matches,
    ),
    Format("verl", "verl rollout dumps (JSONL, or a JSON list)", verl.read, None, verl.matches),
    Format("chat", "OpenAI-style chats (JSONL, or a JSON list)", chat.read, chat.write, chat.matches),
    Format(
        "inspect",
        "Inspect logs (.eval, or JSON)",
        inspect_log.read,
        inspect_log.write,
        inspect_log.matches,
        (".eval", ".json"),
    ),
    Format(
        "parquet",
        "Parquet, as Hugging Face datasets load it",
        parquet.read,
        parquet.write,
        suffixes=(".parquet",),
    ),
)


def format_names(*, writing: bool = False) -> list[str]:
    """Names of all formats that can be read (or written)."""
    return [f.name for f in _FORMATS if (f.write if writing else f.read) is not None]


def format_called(name: str) -> Format:
    """A format by name. Raises ``RecordError`` with the names there are."""
    for found in _FORMATS:
        if found.name == name:
            return found
    raise RecordError(f"no format is called '{name}'; there are {', '.join(f.name for f in _FORMATS)}")


def detect_format(path: Path) -> Format:
    """The format of a file, from its name and its first record. Raises ``RecordError`` if it is none of ours."""
    for found in _FORMATS:
        if path.suffix in found.suffixes and path.suffix not in (".json", ".jsonl"):
            return found
    record = _first_record(path)
    if record is None:
        if path.stat().st_size == 0:
            return NATIVE
        raise RecordError(f"{path} holds no JSON record in its first lines; name its format with --format")
    for found in _FORMATS:
        if found.matches(record):
            return found
    raise RecordError(
        f"{path} is of no known format: its first record has {', '.join(sorted(map(str, record))[:12]) or 'nothing'}; "
        f"known are {', '.join(format_names())}"
    )


def _first_record(path: Path) -> dict[str, Any] | None:
    """The first JSON object: of a line, or the file as a whole."""
    with path.open("rb") as file:
        for _ in range(20):
            line = file.readline(_HEAD)
            if not line:
                break
            if line.strip():
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    return record
    if path.stat().st_size > 100 * _HEAD:
        return None
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    record = record[0] if isinstance(record, list) and record else record
    return record if isinstance(record, dict) else None


def read_foreign(path: Path, report: ExchangeReport, *, name: str | None = None) -> Iterator[Episode]:
    """Episodes of a file of any known format. Raises ``RecordError`` for a format that is not known."""
    found = format_called(name) if name else detect_format(path)
    if found.read is None:
        raise RecordError(f"format '{found.name}' can be written and not read")
    return found.read(path, report)


def write_foreign(episodes: Iterable[Episode], path: Path, report: ExchangeReport, *, name: str) -> None:
    """Write episodes in another format; ``path`` appears once it is whole.

    Raises ``RecordError`` if the format cannot be written, ``path`` is taken, or no episode can be written.
    """
    found = format_called(name)
    if found.write is None:
        raise RecordError(
            f"format '{name}' can be read and not written; there are {', '.join(format_names(writing=True))}"
        )
    if path.exists():
        raise RecordError(f"{path} exists already; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".turnpoint-") as folder:
        part = Path(folder) / path.name
        found.write(episodes, part, report)
        if not report.episodes:
            why = "; ".join(report.notes()[:3]) or "there is none"
            raise RecordError(f"no episode can be written to {path}: {why}")
        part.rename(path)
