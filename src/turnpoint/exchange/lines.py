"""JSON records of other tools, one at a time, faults counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

Json = dict[str, Any]
_HALVES = re.compile("[\ud800-\udfff]")
_HALVES_TEXT = re.compile(r"\\u[dD][89a-fA-F]")
_HALVES_BYTES = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""JSON in which halves of surrogate pairs may stand; most has none, and is not walked."""


def loads(data: str | bytes, report: ExchangeReport) -> Any:
    """JSON, with half of a surrogate pair (which UTF-8 cannot hold) replaced and counted. Raises ``ValueError``."""
    value = json.loads(data)
    suspect = _HALVES_BYTES.search(data) if isinstance(data, bytes) else _HALVES_TEXT.search(data)
    return _whole(value, report) if suspect else value


def _whole(value: Any, report: ExchangeReport) -> Any:
    if isinstance(value, str):
        text, count = _HALVES.subn("\ufffd", value)
        if count:
            report.changed["half of a surrogate pair, replaced by U+FFFD"] += count
        return text
    if isinstance(value, list):
        return [_whole(item, report) for item in value]
    if isinstance(value, dict):
        return {_whole(key, report): _whole(item, report) for key, item in value.items()}
    return value


def records(path: Path, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    """(name of the place, record) of every readable line, or of a file that is one JSON document.

    A ``.json`` file, or one that starts with ``[``, is read as a whole: an object or a list of them. If it is no
    single document, it is read as lines.
    """
    with path.open("rb") as file:
        if path.suffix == ".json" or file.read(4096).lstrip().startswith(b"["):
            file.seek(0)
            try:
                data = loads(file.read(), report)
            except (ValueError, RecursionError):
                data = None
            if isinstance(data, list):
                for number, item in enumerate(data, start=1):
                    yield from _objects(f"{path.name}:{number}", item, report)
                return
            if data is not None:
                yield from _objects(path.name, data, report)
                return
        file.seek(0)
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name}:{number}"
            try:
                record = loads(line, report)
            except (ValueError, RecursionError):
                report.drop("not JSON", where)
                if path.suffix == ".json" and number == 1:
                    return  # a damaged document, whose lines say nothing each
                continue
            yield from _objects(where, record, report)


def _objects(where: str, record: Any, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    if isinstance(record, dict):
        yield where, record
    else:
        report.drop("not a JSON object", where)


def count_unused(record: Mapping[str, Any], used: Collection[str], report: ExchangeReport) -> None:
    """Count the fields that hold something and that no one reads."""
    for name, value in record.items():
        if name not in used and value not in (None, "", [], {}):
            report.changed[f"field '{str(name)[:40]}'"] += 1


def episodes(
    source: Iterable[tuple[str, Json]],
    report: ExchangeReport,
    convert: Callable[[str, Json], Iterable[Episode]],
) -> Iterator[Episode]:
    """Convert records; one that cannot be converted is counted, and ids that repeat are told apart."""
    taken: set[str] = set()
    for where, record in source:
        try:
            found = list(convert(where, record))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            report.drop(f"lacks {error}" if isinstance(error, KeyError) else str(error)[:200], where)
            continue
        for episode in found:
            name, number = episode.id, 2
            while episode.id in taken:
                episode.id, number = f"{name}~{number}", number + 1
            taken.add(episode.id)
            report.episodes += 1
            yield episode


def write_lines(items: Iterable[Any], path: Path) -> None:
    """One JSON document a line."""
    with path.open("w", encoding="utf-8") as file:
        for item in items:
            file.write(json.dumps(item, ensure_ascii=False, default=str) + "\n")
