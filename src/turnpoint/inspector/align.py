"""Episodes of a group aligned by turn, so that shared beginnings stand under one another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str] | None


@dataclass(slots=True)
class AlignedRow:
    """An episode in its group."""

    entry: Json
    detail: Json
    path: list[Key]
    """What makes each turn the same turn (seen, done), from the first turn of the task; None = not known."""
    shared: int = 0
    """Leading turns that equal those of the row above."""

    @property
    def start(self) -> int:
        """Turns before its own first one."""
        return own_start(self.detail)


def own_start(detail: Json) -> int:
    """Where an episode's own turns begin: a fork's turn, unless it holds the reused turns itself."""
    return int(detail["fork"][1]) if "fork" in detail and not detail.get("reused") else 0


def step_key(turn: Json) -> Key:
    """What was seen and what was done."""
    return str(turn["obs"][0]), str(turn.get("executed") or turn.get("action") or "")


def align(entries: Sequence[Json], details: Sequence[Json]) -> list[AlignedRow]:
    """Rows in an order where shared beginnings are neighbours."""
    by_id = {detail["id"]: detail for detail in details}
    rows = [AlignedRow(e, d, _path(d, by_id, 0)) for e, d in zip(entries, details, strict=True)]
    ordered = _branch_out(rows, 0)
    for above, row in itertools.pairwise(ordered):
        while row.shared < min(len(row.path), len(above.path)) and _equal(row, above, row.shared):
            row.shared += 1
    return ordered


def _equal(row: AlignedRow, above: AlignedRow, turn: int) -> bool:
    return row.path[turn] is not None and row.path[turn] == above.path[turn]


def _path(detail: Json, by_id: dict[str, Json], depth: int) -> list[Key]:
    own: list[Key] = [step_key(turn) for turn in detail.get("turns", ())]
    start = own_start(detail)
    if not start:
        return own
    parent = by_id.get(detail["fork"][0])
    if parent is None or parent is detail or depth > 20:
        return [None] * start + own
    before = _path(parent, by_id, depth + 1)[:start]
    return before + [None] * (start - len(before)) + own


def _branch_out(rows: list[AlignedRow], turn: int) -> list[AlignedRow]:
    """Sort by first appearance of every next turn; iterative along the part that all rows share."""
    while len(rows) > 1:
        parts: dict[Key | str, list[AlignedRow]] = {}
        for row in rows:
            parts.setdefault(row.path[turn] if turn < len(row.path) else "ended", []).append(row)
        if len(parts) > 1 or "ended" in parts:
            ended = parts.pop("ended", [])
            return ended + [row for part in parts.values() for row in _branch_out(part, turn + 1)]
        turn += 1
    return rows
