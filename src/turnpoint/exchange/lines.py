"""JSON records of other tools, one at a time, faults counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
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
    single document, it is read as lines; a ``.json`` file without a record in its first two is a damaged document.
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
        if path.suffix == ".json":
            heads = [*islice((line for line in file if line.strip()), 2)]
            if heads and not any(map(_is_object, heads)):
                report.drop("not JSON", f"{path.name}:1")
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
                continue
            yield from _objects(where, record, report)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


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
    """Convert records; one that cannot be converted is counted, and other tools' ids that repeat are told apart."""
    taken: set[str] = set()
    for where, record in source:
        try:
            found = list(convert(where, record))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            report.drop(f"lacks {error}" if isinstance(error, KeyError) else str(error)[:200], where)
            continue
        for episode in found:
            name, number = episode.id, 2
            while episode.id in taken and not _is_ours(record):
                episode.id, number = f"{name}~{number}", number + 1
            if episode.id != name:
                report.changed["id that repeats, told apart by a number"] += 1
            taken.add(episode.id)
            report.episodes += 1
            yield episode


def _is_ours(record: Json) -> bool:
    """Whether turnpoint wrote it: evaluations of several steps share their ids, and keep them."""
    places = (record, record.get("extra"), record.get("metadata"))
    marked = any(isinstance(place, dict) and "turnpoint" in place for place in places)
    return marked or str(record.get("episode"))[:1] == "{"  # the column of our Parquet files


def exported(
    found: Iterable[Episode], make: Callable[[Episode], Json], report: ExchangeReport
) -> Iterator[tuple[Json, str]]:
    """What ``make`` gives for each episode, and its JSON; what has no such form (NaN, half a character) is counted."""
    for episode in found:
        try:
            record = make(episode)
            text = json.dumps(record, ensure_ascii=False, allow_nan=False, default=str)
            text.encode()
        except (ValueError, TypeError) as error:
            # the reason alone of an encoding error, which would else repeat the text
            report.drop(str(getattr(error, "reason", error)), episode.id.encode("utf-8", "replace").decode())
            continue
        report.episodes += 1
        yield record, text


def write_lines(
    found: Iterable[Episode], make: Callable[[Episode], Json], path: Path, report: ExchangeReport
) -> None:
    """One JSON document a line."""
    with path.open("w", encoding="utf-8") as file:
        for _, text in exported(found, make, report):
            file.write(text + "\n")
