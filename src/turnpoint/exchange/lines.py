"""JSON lines of other tools, one record at a time, faults counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

Json = dict[str, Any]


def records(path: Path, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    """(name of the place, record) of every readable line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name}:{number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                report.drop("not JSON", where)
                continue
            if isinstance(record, dict):
                yield where, record
            else:
                report.drop("not a JSON object", where)


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
