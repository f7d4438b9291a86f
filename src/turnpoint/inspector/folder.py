"""Reading a run folder with patience: a run that was killed, or is still going on, can be looked at too."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from turnpoint.records import Episode, episode_from_dict

_STEP = re.compile(r"step_(\d+)\.jsonl")


@dataclass(slots=True)
class RunFolder:
    """What lies in a run folder; whatever is absent is empty."""

    path: Path
    config_text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    train: list[dict[str, Any]] = field(default_factory=list)
    """Metric records of training steps, in order."""
    evals: list[dict[str, Any]] = field(default_factory=list)
    """Metric records of evaluations, in order."""
    episode_files: list[tuple[int, Path]] = field(default_factory=list)
    """(step, file) of training episodes."""
    eval_files: list[tuple[int, Path]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One sentence for each thing that could not be read."""


def read_run_folder(path: Path) -> RunFolder:
    """Read everything but the episodes. Raises ``FileNotFoundError`` if ``path`` is not a folder."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; name the folder of a run")
    run = RunFolder(path)
    run.config_text = _text(path / "config.yaml", run.problems)
    run.config = _mapping(run.config_text, "config.yaml", yaml.safe_load, run.problems)
    run.header = _mapping(_text(path / "header.json", run.problems), "header.json", json.loads, run.problems)
    records = read_metric_records(path / "metrics.jsonl", run.problems)
    run.train = [record for record in records if record.get("kind") == "train"]
    run.evals = [record for record in records if record.get("kind") == "eval"]
    run.episode_files = step_files(path / "episodes")
    run.eval_files = step_files(path / "eval")
    return run


def step_files(folder: Path) -> list[tuple[int, Path]]:
    """(step, file) of every ``step_N.jsonl``, oldest first."""
    if not folder.is_dir():
        return []
    return sorted((int(m.group(1)), p) for p in folder.iterdir() if (m := _STEP.fullmatch(p.name)))


def _text(path: Path, problems: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problems.append(f"{path.name} could not be read: {error.strerror or error}")
        return ""


def _mapping(text: str, name: str, parse: Any, problems: list[str]) -> dict[str, Any]:
    if not text:
        return {}
    try:
        data = parse(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        problems.append(f"{name} could not be read: {error}")
        return {}
    if isinstance(data, dict):
        return data
    problems.append(f"{name} holds no mapping")
    return {}


def read_metric_records(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """Complete records with a step; torn or foreign lines are counted in one problem."""
    records, bad = [], 0
    for line in _text(path, problems).splitlines():
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
        else:
            bad += 1
    if bad:
        problems.append(
            f"{path.name}: {bad} line{'s' if bad > 1 else ''} could not be read and were left out"
        )
    return records


@dataclass(frozen=True, slots=True)
class LineRef:
    """Where one episode lies: byte range of its line in a file."""

    path: Path
    number: int
    """1-based line number, for messages."""
    offset: int
    length: int

    def read(self) -> Episode:
        """Parse the episode. Raises ``RecordError`` or ``ValueError`` if the line is not one."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return episode_from_dict(json.loads(file.read(self.length)))


def line_refs(path: Path) -> list[LineRef]:
    """Every non-empty line of a file, without parsing it."""
    refs, offset = [], 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                refs.append(LineRef(path, number, offset, len(line)))
            offset += len(line)
    return refs


def read_refs(refs: Sequence[LineRef], problems: list[str]) -> list[Episode]:
    """Episodes of the lines; one that cannot be read becomes a problem."""
    episodes = []
    for ref in refs:
        try:
            episodes.append(ref.read())
        except (ValueError, RecursionError, OSError) as error:
            problems.append(f"{ref.path.name}:{ref.number}: {error}")
    return episodes
