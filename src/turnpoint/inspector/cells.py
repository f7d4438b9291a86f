"""What a turn is worth and how it is marked: the Python side of the pages' ``strip.js``, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MODES = {"distance": "distances", "advantage": "advantages", "gap": "gaps", "plain": ""}
"""Colouring modes, the most telling first, and the field they read."""
STOPS = {
    "success": "solved",
    "failure": "failed",
    "max_turns": "out of turns",
    "depth_cap": "stopped at the depth cap",
    "out_of_support": "stopped: out of support",
    "context_limit": "context full",
    "branch_end": "end of branch",
    "time_out": "time-out",
    "env_error": "environment error",
    "restore_mismatch": "state not reproduced",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Sign and size (0 to 1) of a turn, and the same in words."""

    sign: int = 0
    size: float = 0.0
    words: str = ""
    glyph: str = "·"


def outcome(entry: Json) -> tuple[str, str]:
    """Glyph and words of how an episode ended."""
    stop = entry.get("stop")
    words = STOPS.get(stop or "", stop or "not finished")
    return {True: "✓", False: "✗"}.get(entry.get("success"), "■"), words  # type: ignore[arg-type]


def has_mode(entry: Json, mode: str) -> bool:
    """Whether an episode has the numbers of a mode."""
    return mode == "plain" or bool(entry.get(MODES[mode]))


def mode_for(entry: Json, wanted: str) -> str:
    """``wanted`` where the episode has its numbers, else the most telling mode that it has."""
    return wanted if has_mode(entry, wanted) else next(mode for mode in MODES if has_mode(entry, mode))


def scale_of(values: Sequence[float | None]) -> float:
    """The 95th percentile of sizes, so that one outlier hides nothing."""
    sizes = sorted(abs(value) for value in values if value is not None)
    return (sizes[int((len(sizes) - 1) * 0.95)] or sizes[-1] or 1.0) if sizes else 1.0


def cell(entry: Json, turn: int, mode: str, scale: float) -> Cell:
    """What a turn is worth in a mode."""
    if mode == "plain":
        return Cell()
    values = entry.get(MODES[mode]) or []
    if mode == "distance":
        return _distance_cell(values, turn)
    value = values[turn] if turn < len(values) else None
    if value is None:
        return Cell(words=f"no {mode} recorded")
    sign = (value > 0) - (value < 0)
    return Cell(sign, min(1.0, abs(value) / scale), f"{mode} {value:+.3g}", "−·+"[sign + 1])


def _distance_cell(path: Sequence[int | None], turn: int) -> Cell:
    if turn + 1 >= len(path):
        return Cell(words="distance not measured")
    before, after = path[turn], path[turn + 1]
    if before is None:
        return Cell(words="cannot be solved any more", glyph=" ")
    if after is None:
        return Cell(-1, 1.0, f"distance {before} → cannot be solved any more", "!")
    step = before - after
    sign = (step > 0) - (step < 0)
    return Cell(sign, min(1.0, 0.45 + 0.2 * abs(step)), f"distance {before} → {after}", "−·+"[sign + 1])


def marks(entry: Json, turn: int, fork_turns: Sequence[int] = ()) -> list[tuple[str, str, str]]:
    """(glyph, name, words) of every mark of a turn."""
    found = []
    if turn in entry.get("pivots", ()):
        found.append(("◆", "pivot", "named pivot"))
    if turn in entry.get("oracle", ()):
        found.append(("▽", "oracle", "oracle pivot"))
    if turn in fork_turns:
        found.append(("⤷", "branch", "something branches off after this turn"))
    if entry.get("attempt") and turn == entry.get("reused", 0):
        found.append(("↻", "retry", f"attempt {entry['attempt']} starts here"))
    if turn in entry.get("invalid", ()):
        found.append(("×", "invalid", "no usable action"))
    return found
