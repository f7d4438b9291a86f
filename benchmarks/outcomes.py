"""Outcomes of finished runs over seeds: success by task, intervals and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnpoint.pivots import bootstrap_interval
from turnpoint.records import EpisodeReader

Outcomes = dict[tuple[int, str], float]
"""Success (0 or 1, or a mean over samples) by (seed, task)."""


def evaluations(run: Path) -> list[Path]:
    """Episode files of a run's evaluations, first to last."""
    return sorted((run / "eval").glob("step_*.jsonl"))


def solved_within(file: Path, attempts: int) -> dict[str, float]:
    """Whether each task of an evaluation was solved within so many attempts, by task id."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for episode in EpisodeReader(file):
        if episode.attempt.index < attempts:
            found[episode.task.id].append(float(bool(episode.success)))
    return {task: max(values) for task, values in found.items()}


def over_seeds(runs: Sequence[Path], attempts: int = 1, *, last: bool = True) -> Outcomes:
    """Outcomes of the last (or first) evaluation of one method's runs, a run for each seed."""
    return {
        (seed, task): value
        for seed, run in enumerate(runs)
        for task, value in solved_within(evaluations(run)[-1 if last else 0], attempts).items()
    }


def cell(outcomes: Outcomes) -> str:
    """Mean in per cent, and in brackets the mean of every seed."""
    seeds = sorted({seed for seed, _ in outcomes})
    each = [np.mean([value for (s, _), value in outcomes.items() if s == seed]) for seed in seeds]
    return f"{100 * np.mean(each):.1f} ({', '.join(f'{100 * value:.1f}' for value in each)})"


def difference(mine: Outcomes, other: Outcomes) -> str:
    """``mine - other`` in points over the same seeds and tasks, with a 95 % bootstrap interval over tasks.

    The interval says how sure the difference is for these training runs; other seeds vary on top of it.
    """
    keys = sorted(mine.keys() & other.keys())
    interval = bootstrap_interval([mine[k] - other[k] for k in keys], units=keys)
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
