"""Running many training runs as separate single-thread processes, and reading what they left."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """One training run: a recipe with overrides, in its own folder."""

    name: str
    recipe: str
    overrides: tuple[str, ...] = ()


def training_options(
    doc: str | None, out: str, *, tasks: int = 300, seeds: Sequence[int] = (0, 1, 2), processes: int = 2
) -> argparse.ArgumentParser:
    """A parser with what every benchmark of training runs takes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--tasks", type=int, default=tasks, help="held-out tasks of the evaluation")
    parser.add_argument("--processes", type=int, default=processes)
    parser.add_argument("--set", nargs="*", default=[], help="further overrides for every run")
    return parser


def train_all(
    options: argparse.Namespace, runs: Mapping[str, tuple[str, Sequence[str]]]
) -> dict[str, list[Path]]:
    """Train every named (recipe, overrides) for every seed of ``training_options``; each name's folders by seed."""
    jobs = {
        (name, seed): Job(
            f"{slug(name)}-{seed}",
            recipe,
            (f"seed={seed}", f"eval.tasks={options.tasks}", "eval.every=0", "train.checkpoint_every=0",
             "train.save_episodes=false", *overrides, *options.set),
        )
        for seed in options.seeds
        for name, (recipe, overrides) in runs.items()
    }  # fmt: skip
    folders = run_all(list(jobs.values()), options.out, processes=options.processes)
    return {name: [folders[jobs[name, seed].name] for seed in options.seeds] for name in runs}


def slug(name: str) -> str:
    """A folder name."""
    return "-".join(name.lower().replace(",", "").replace("=", "").split())


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
    """Train every job that has not finished yet, ``processes`` at a time; returns run folders by name.

    A job that was stopped goes on from its last checkpoint, or begins anew where it has none.
    """

    def run(job: Job) -> Path:
        folder = out / job.name
        if not (folder / "report.html").exists():
            if folder.exists() and any((folder / "checkpoints").glob("step_*")):
                turnpoint("resume", str(folder), log=out / f"{job.name}.log")
            else:
                shutil.rmtree(
                    folder, ignore_errors=True
                )  # training would go to a folder beside what was stopped
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
