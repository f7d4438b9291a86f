"""Running many training runs as separate single-thread processes, and reading what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """One training run: a recipe with overrides, in its own folder."""

    name: str
    recipe: str
    overrides: tuple[str, ...] = ()
    tags: dict[str, Any] = field(default_factory=dict, hash=False)


def turnpoint(*arguments: str, log: Path | None = None) -> str:
    """Run the command line in a process of its own; returns stdout, raises with the end of stderr."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "turnpoint.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stderr)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run_all(jobs: Sequence[Job], out: Path, *, processes: int) -> dict[str, Path]:
    """Train every job that has not finished yet, ``processes`` at a time; returns run folders by name."""

    def run(job: Job) -> Path:
        folder = out / job.name
        if not (folder / "report.html").exists():
            if folder.exists() and any((folder / "checkpoints").glob("step_*")):
                turnpoint("resume", str(folder), log=out / f"{job.name}.log")
            else:
                overrides = [*job.overrides, f"out={out}", f"name={job.name}"]
                turnpoint("train", job.recipe, *overrides, log=out / f"{job.name}.log")
            print(f"finished {job.name}", file=sys.stderr, flush=True)
        return folder

    with ThreadPoolExecutor(processes) as pool:
        return dict(zip([job.name for job in jobs], pool.map(run, jobs), strict=True))


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Metrics records of one kind."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
