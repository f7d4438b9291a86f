"""What a training run shows while it works: a live table on a terminal, plain lines in a pipe."""

from __future__ import annotations

from collections import deque
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from turnpoint.pivots import EpisodeSummary

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


class ConsoleView(View):
    """Live table on a terminal, one line per step otherwise."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self._rows: deque[tuple[str, ...]] = deque(maxlen=_SHOWN)
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
        cells = (
            f"{step}/{self.total}",
            percent(metrics.get("success")),
            f"{metrics['turns']:.1f}",
            percent(metrics["invalid"]),
            f"{metrics.get('pivots_used', 0):.0f}",
            f"{metrics.get('recovery_tokens', 0):.0f}",
            f"{metrics.get('update/grad_norm', float('nan')):.3f}",
            f"{metrics['seconds']:.1f}s",
        )
        self._rows.append(cells)
        if self._live:
            self._live.update(self._table())
        else:
            names = ("step", "success", "turns", "invalid", "pivots", "recovery tokens", "grad norm", "time")
            line = "  ".join(f"{name} {cell}" for name, cell in zip(names, cells, strict=True))
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
        table = Table("step", "success", "turns", "invalid", "pivots", "recovery tokens", "grad norm", "time")
        for row in self._rows:
            table.add_row(*row)
        return table
