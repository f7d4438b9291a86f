"""What a training run shows while it works: a live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from turnpoint.pivots import EpisodeSummary
from turnpoint.records import StopReason

_SHOWN = 12
_WARNING = "signal_empty/"


class View:
    """Silent base: shows nothing."""

    def note(self, text: str) -> None:
        """A remark for the reader."""

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        """A training step is complete."""

    def evaluation(self, step: int, summary: EpisodeSummary) -> None:
        """An evaluation is complete."""

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return "–" if value is None else f"{100 * value:.1f}%"


def success_text(summary: EpisodeSummary) -> str:
    """Success with its 95 % interval."""
    s = summary.success
    return f"success {percent(s.mean)} [{percent(s.low)}, {percent(s.high)}] over {s.n} episodes"


def step_success(metrics: dict[str, Any]) -> str:
    """Success among the episodes of a step that have an outcome, and how many those are if not all have one."""
    ended = sum(count for stop, count in metrics["stops"].items() if StopReason(stop).has_outcome)
    of = "" if ended == metrics["episodes"] else f" of {ended} ended"
    return percent(metrics.get("success")) + of


_OF_METHODS: dict[str, tuple[str, Callable[[float], str]]] = {
    "pivots_used": ("pivots", "{:.0f}".format),
    "recovery_tokens": ("recovery tokens", "{:.0f}".format),
    "stopped": ("stopped", percent),
    "window/reused": ("reused turns", "{:.1f}".format),
    "reflections_valid": ("valid reflections", percent),
    "retry_ratio": ("retry ratio", "{:.2f}".format),
}
"""Metrics that only some methods have, with their column."""


class ConsoleView(View):
    """Live table on a terminal, one line per step otherwise."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self._rows: deque[dict[str, str]] = deque(maxlen=_SHOWN)
        self._warned: set[str] = set()
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None

    def __enter__(self) -> View:
        if self._live:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.__exit__(None, None, None)

    def note(self, text: str) -> None:
        self.console.print(f"note: {text}", markup=False, highlight=False)

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        cells = {
            "step": f"{step}/{self.total}",
            "success": step_success(metrics),
            "turns": f"{metrics['turns']:.1f}",
            "invalid": percent(metrics["invalid"]),
            **{title: show(metrics[name]) for name, (title, show) in _OF_METHODS.items() if name in metrics},
            "grad norm": f"{metrics.get('update/grad_norm', float('nan')):.3f}",
            "time": f"{metrics['seconds']:.1f}s",
        }
        self._rows.append(cells)
        if self._live:
            self._live.update(self._table())
        else:
            line = "  ".join(f"{name} {cell}" for name, cell in cells.items())
            self.console.print(line, markup=False, highlight=False)
        for name in metrics:
            if name.startswith(_WARNING) and name not in self._warned:
                self._warned.add(name)
                signal = name.removeprefix(_WARNING)
                self.note(
                    f"step {step}: the signal '{signal}' is configured but reached no token (counted as {name})"
                )

    def evaluation(self, step: int, summary: EpisodeSummary) -> None:
        self.console.print(f"eval at step {step}: {success_text(summary)}", markup=False, highlight=False)

    def _table(self) -> Table:
        names = dict.fromkeys(name for row in self._rows for name in row)
        last = ("grad norm", "time")
        ordered = [*(name for name in names if name not in last), *last]
        table = Table(*ordered)
        for row in self._rows:
            table.add_row(*(row.get(name, "–") for name in ordered))
        return table
