"""Several runs side by side: learning curves on common axes, final figures, and paired tests on common tasks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from math import comb
from pathlib import Path
from typing import Any

from turnpoint.inspector.figures import interval, number
from turnpoint.inspector.folder import RunFolder, read_run_folder
from turnpoint.inspector.plots import Series
from turnpoint.inspector.text import clip_note
from turnpoint.pivots import Interval, bootstrap_interval
from turnpoint.records import EpisodeReader, RecordError, Task

AXES = {
    "steps": "training steps",
    "interactions": "environment turns",
    "tokens": "sampled tokens",
    "seconds": "seconds",
}
_SOURCES = {"interactions": "interactions", "tokens": "sampled_tokens", "seconds": "seconds"}
"""Metric of a training step that an axis sums up."""
FIGURES = {
    "success": "success",
    "recovered": "solved in spite of a pivot",
    "pivot_rate": "episodes with a pivot",
    "turns": "turns",
    "wasted_turns": "turns wasted",
}


@dataclass(slots=True)
class ComparedRun:
    """One run."""

    name: str
    run: RunFolder
    outcomes: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Outcome of each first attempt of the last evaluation, by the task's whole content and the episode's number."""

    def axis(self, kind: str) -> dict[int, float]:
        """Position of every step on an axis: what was used up to and including it."""
        steps = [record["step"] for record in self.run.train]
        if kind == "steps":
            return {step: float(step) for step in [*steps, *(r["step"] for r in self.run.evals)]}
        used = [number(record, _SOURCES[kind]) for record in self.run.train]
        if not steps or any(value is None for value in used):
            return {}
        return {0: 0.0} | dict(zip(steps, accumulate(float(v) for v in used if v is not None), strict=True))

    def curve(self, metric: str, kind: str) -> Series:
        """Held-out figure with its interval over an axis; evaluations that have no place on it are left out."""
        places = self.axis(kind)
        found = [(places[r["step"]], interval(r.get(metric))) for r in self.run.evals if r["step"] in places]

        def column(key: str) -> list[float | None]:
            return [None if value is None else float(value[key]) for _, value in found]

        return Series(self.name, [x for x, _ in found], column("mean"), column("low"), column("high"))

    def training_curve(self, metric: str, kind: str) -> Series:
        """A training metric over an axis."""
        places = self.axis(kind)
        records = [r for r in self.run.train if r["step"] in places]
        return Series(self.name, [places[r["step"]] for r in records], [number(r, metric) for r in records])

    def final(self) -> dict[str, Any]:
        """Figures of the last evaluation."""
        last = self.run.evals[-1] if self.run.evals else {}
        return {name: value for name in FIGURES if (value := interval(last.get(name))) is not None}

    def spent(self) -> dict[str, float | None]:
        """What training used in all."""
        return {kind: max(self.axis(kind).values(), default=None) for kind in AXES}


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two runs on the same held-out episodes."""

    first: str
    second: str
    gain: Interval
    """Success of the second minus the first, resampling tasks."""
    better: int
    """Tasks that the second solves more often."""
    worse: int
    p: float
    """Exact McNemar test of equal success, two-sided; a sign test over tasks where they have several episodes."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "gain": self.gain.as_dict(),
            "better": self.better,
            "worse": self.worse,
            "p": self.p,
        }


def read_runs(folders: Sequence[Path]) -> list[ComparedRun]:
    """Read run folders. Raises ``RecordError`` for a folder without metrics, ``FileNotFoundError`` for none."""
    runs: list[ComparedRun] = []
    names: dict[str, int] = {}
    for folder in folders:
        read = read_run_folder(folder)
        if not read.train and not read.evals:
            raise RecordError(f"{folder} has no metrics of steps or evaluations; name the folders of runs")
        name = clip_note(str(read.config.get("name") or folder.resolve().name), 60)
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name} ({names[name]})"
        compared = ComparedRun(name, read)
        _read_outcomes(compared)
        runs.append(compared)
    return runs


def _read_outcomes(compared: ComparedRun) -> None:
    """Outcomes of the last evaluation's first attempts; several episodes of a task are told apart by their order.

    Numbers of tasks repeat from one environment to the next, so what tells tasks apart is all that they hold, and how
    many turns there are for them.
    """
    if not compared.run.eval_files:
        return
    _, path = compared.run.eval_files[-1]
    env = compared.run.config.get("env")
    turns = env.get("max_turns") if isinstance(env, dict) else None
    seen: Counter[str] = Counter()
    reader = EpisodeReader(path, strict=False)
    for episode in reader:
        if episode.attempt.index:
            continue
        task = _content(episode.task, turns)
        seen[task] += 1
        if episode.success is not None and episode.stop and episode.stop.has_outcome:
            compared.outcomes[task, seen[task]] = episode.success
    compared.run.problems += reader.report.problems[:10]


def _content(task: Task, turns: Any) -> str:
    whole = [task.env, task.id, task.instruction, task.type, task.domain, task.seed, dict(task.data), turns]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()


def pairings(runs: Sequence[ComparedRun]) -> list[Pairing]:
    """Every pair of runs that share held-out episodes."""
    found = []
    for first, second in combinations(runs, 2):
        common = sorted(first.outcomes.keys() & second.outcomes.keys())
        if not common:
            continue
        gains = [float(second.outcomes[key]) - float(first.outcomes[key]) for key in common]
        units = [task for task, _ in common]
        gain = bootstrap_interval(gains, units=units)
        of_task: defaultdict[str, float] = defaultdict(float)
        for unit, difference in zip(units, gains, strict=True):
            of_task[unit] += difference
        better, worse = sum(g > 0 for g in of_task.values()), sum(g < 0 for g in of_task.values())
        found.append(Pairing(first.name, second.name, gain, better, worse, mcnemar(better, worse)))
    return found


def mcnemar(better: int, worse: int) -> float:
    """Exact two-sided McNemar test: the sign test on the pairs that differ; 1 without any."""
    n = better + worse
    if not n:
        return 1.0
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1)) / 2**n
    return float(min(1.0, 2 * tail))


def as_dict(runs: Sequence[ComparedRun]) -> dict[str, Any]:
    """Plain JSON: curves, final figures, pairs."""

    def points(series: Series) -> list[dict[str, float | None]]:
        return [{"x": x, "mean": y, "low": low, "high": high} for x, y, low, high in series.points()]

    return {
        "runs": [
            {
                "name": run.name,
                "folder": str(run.run.path),
                "final": run.final(),
                "spent": run.spent(),
                "held_out_success": {kind: points(run.curve("success", kind)) for kind in AXES},
                "training_success": {kind: points(run.training_curve("success", kind)) for kind in AXES},
                "problems": run.run.problems,
            }
            for run in runs
        ],
        "pairs": [pair.as_dict() for pair in pairings(runs)],
    }
