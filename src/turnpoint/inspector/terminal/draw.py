"""Strips and heads of episodes as Rich text. Text is never read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from turnpoint.inspector.align import own_start
from turnpoint.inspector.cells import MODES, Cell, cell, marks, outcome, scale_of

Json = dict[str, Any]
_POS, _NEG, _FLAT = (0, 114, 178), (213, 94, 0), (90, 98, 110)
_COLOURS = {
    "pivot": "bold magenta",
    "oracle": "bold green",
    "branch": "bold yellow",
    "retry": "bold cyan",
    "invalid": "bold",
}
END = {"✓": "bold #4aa8e0", "✗": "bold #f0883e", "■": "bold"}


def blend(cell: Cell) -> Style:
    """White on the colour of a cell; weak cells are nearer to grey."""
    full = _POS if cell.sign > 0 else _NEG if cell.sign < 0 else _FLAT
    share = 0.35 + 0.65 * cell.size if cell.sign else 1.0
    r, g, b = (round(f + (c - f) * share) for f, c in zip(_FLAT, full, strict=True))
    return Style(color="#ffffff", bgcolor=f"rgb({r},{g},{b})")


def mini_strip(entry: Json, mode: str, fork_turns: Sequence[int] = (), width: int = 80) -> Text:
    """One character for each turn: the first mark, else the sign; what does not fit ends in ``…``."""
    count, text = entry.get("n", 0), Text()
    scale = scale_of(entry.get(MODES[mode]) or [])
    for turn in range(min(count, width - 1)):
        here = cell(entry, turn, mode, scale)
        found = marks(entry, turn, fork_turns)
        text.append(found[0][0] if found else here.glyph, blend(here))
    if count > width - 1:
        text.append("…")
    return text


def strip(
    entry: Json, mode: str, fork_turns: Sequence[int], current: int | None, width: int = 100
) -> RenderableType:
    """Marks, cells and turn numbers in rows that fit ``width``; the current turn stands in brackets."""
    count = int(entry.get("n", 0))
    each = max(1, (width - 2) // 4)
    scale = scale_of(entry.get(MODES[mode]) or [])
    rows = []
    for first in range(0, max(1, count), each):
        above, middle, below = Text(no_wrap=True), Text(no_wrap=True), Text(no_wrap=True)
        for turn in range(first, min(count, first + each)):
            found = marks(entry, turn, fork_turns)[:3]
            for glyph, name, _ in found:
                above.append(glyph, _COLOURS[name])
            above.append(" " * (4 - len(found)))
            here = cell(entry, turn, mode, scale)
            body = f"[{here.glyph}]" if turn == current else f" {here.glyph} "
            middle.append(body, blend(here) + Style(bold=True, reverse=turn == current)).append(" ")
            below.append(f"{turn + own_start(entry):^3} ", "dim")
        rows += [above, middle, below]
    rows[-2].append(outcome(entry)[0], END[outcome(entry)[0]])
    return Group(*rows)


def head(detail: Json) -> Text:
    """Task and figures."""
    glyph, words = outcome(detail)
    facts = [
        detail["id"],
        detail.get("type", ""),
        f"reward {detail.get('reward', 0)}",
        f"{detail.get('n', 0)} turns",
    ]
    text = Text().append(detail.get("instruction") or detail["task"], "bold").append("\n")
    text.append(f"{glyph} {words}", END[glyph])
    return text.append("  " + " · ".join(filter(None, facts)), "dim")


def distance_line(detail: Json) -> Text | None:
    """``5 4 3 ▲4 ∅``: the oracle's distance before each turn and at the end; None if not measured."""
    path = detail.get("distances")
    if not path:
        return None
    text, before = Text().append("oracle distance: ", "dim"), path[0]
    for value in path:
        worse = before is not None and (value is None or value > before)
        shown = "∅" if value is None else str(value)
        text.append(f"▲{shown} " if worse else f"{shown} ", "bold #f0883e" if worse else "")
        before = value
    return text
