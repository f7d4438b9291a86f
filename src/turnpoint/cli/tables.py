"""Tables and intervals on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def percent(value: dict[str, Any] | None) -> str:
    """``61.0% [52.0%, 70.0%]``, or a dash."""
    if value is None:
        return "–"
    return f"{100 * value['mean']:.1f}% [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def mean(value: dict[str, Any] | None, digits: int = 1) -> str:
    """``6.2 [5.0, 7.4]``, or a dash."""
    if value is None:
        return "–"
    return f"{value['mean']:.{digits}f} [{value['low']:.{digits}f}, {value['high']:.{digits}f}]"


def show_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; text of others is shown as it is, hidden characters made visible, never as markup."""
    from turnpoint.inspector.text import clip_note

    terminal = Console(file=sys.stdout)
    out = terminal if terminal.is_terminal else Console(file=sys.stdout, width=200)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(clip_note(cell, 80)) for cell in row))
    out.print(table)
    out.print()
