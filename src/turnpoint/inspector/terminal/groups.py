"""Groups aligned by turn, and branches beside their originals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnpoint.inspector.align import AlignedRow, align, own_start
from turnpoint.inspector.cells import MODES, cell, marks, outcome, scale_of
from turnpoint.inspector.terminal.draw import END, blend

Json = dict[str, Any]


def group_view(entries: Sequence[Json], details: Sequence[Json], here: Json, mode: str) -> RenderableType:
    """The group aligned by turn; what equals the row above is a thin line, ``┃`` marks where a row parts from it."""
    rows = align(entries, details)
    scale = scale_of([v for row in rows for v in row.entry.get(MODES[mode]) or []])
    table = Table.grid(padding=(0, 1))
    for row in rows:
        glyph, _ = outcome(row.entry)
        name = ("⤷ " if row.entry["kind"] == "recovery" else "") + row.entry["id"]
        style = "bold underline" if row.entry is here else ""
        table.add_row(Text(glyph, END[glyph]), Text(name, style), _cells(row, mode, scale))
    return table


def _cells(row: AlignedRow, mode: str, scale: float) -> Text:
    line = Text(no_wrap=True)
    for turn in range(len(row.path)):
        own = turn - row.start
        if own < 0 or turn < row.shared:
            line.append("╌╌╌" if own < 0 else "───", "dim")
            continue
        found, worth = marks(row.entry, own), cell(row.entry, own, mode, scale)
        line.append("┃" if turn == row.shared and row.shared else " ")
        line.append(f"{found[0][0] if found else worth.glyph} ", blend(worth))
    return line


def side_by_side(parent: Json, branch: Json) -> RenderableType:
    """Original and branch from the turn where they part."""
    first, shift = branch["fork"][1], own_start(branch)
    table = Table(
        "turn", "original", "branch", title=f"after turn {first - 1}: {branch['id']}", title_justify="left"
    )
    table.title = Text(f"⤷ after turn {first - 1}: {branch['id']} {' '.join(outcome(branch))}")
    for turn in range(max(0, first - 1), shift + len(branch.get("turns", []))):
        right = Text("(shared)", "dim") if turn < first else _side(branch, turn - shift)
        table.add_row(str(turn), _side(parent, turn), right)
    return table


def _side(detail: Json, index: int) -> Text:
    turns = detail.get("turns", [])
    if not 0 <= index < len(turns):
        return Text("(ended)", "dim")
    turn = turns[index]
    text = Text().append(turn.get("action", "(no usable action)"), "bold")
    if turn.get("gold"):
        text.append("\ngold: " + " · ".join(turn["gold"]), "green")
    if turn.get("hint"):
        text.append("\nhint: " + turn["hint"], "yellow")
    return text.append("\n" + turn["response"][0][:400], "dim")
