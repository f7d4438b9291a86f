"""Where problems come from: the generator, or JSONL files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from turnpoint.envs.math.generator import GENERATOR_VERSION, generate
from turnpoint.envs.math.settings import MathSettings
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.releases import releases
from turnpoint.envs.seeded import SeededTasks, seed_of
from turnpoint.records import Task

_PROBLEM = ("problem", "question", "prompt")
_ANSWER = ("answer", "final_answer", "expected_answer", "target")


class ProblemSource(Protocol):
    """Tasks of one split; ``Task.data["answer"]`` is the reference answer."""

    def tasks(self) -> Sequence[Task]:
        """All of them in a fixed order."""

    def header(self) -> dict[str, Any]:
        """Where they come from, how many there are, and their hash."""


def open_source(split: str, settings: MathSettings) -> ProblemSource:
    """The source of a split. Raises ``EnvDataError`` if its file is missing or a line is unusable."""
    where = settings.train if split == "train" else settings.valid
    if where == "generated":
        count = settings.train_tasks if split == "train" else settings.valid_tasks
        return GeneratedProblems(split, count)
    return FileProblems(split, Path(where).expanduser(), settings)


class GeneratedProblems:
    """Problems drawn from seeds; the splits share no seed."""

    def __init__(self, split: str, count: int) -> None:
        self.split, self.count = split, count

    def tasks(self) -> Sequence[Task]:
        return SeededTasks(self.split, self.count, self._task)

    def header(self) -> dict[str, Any]:
        return {"problems": "generated", "version": GENERATOR_VERSION, "tasks": self.count}

    def _task(self, split: str, number: int) -> Task:
        seed = seed_of(split, number)
        problem = generate(seed, split)
        return Task(
            id=f"{split}-{number:05d}",
            env="math",
            instruction=problem.text,
            type=problem.type,
            seed=seed,
            data={"answer": problem.answer},
        )


class FileProblems:
    """Problems of a JSONL file, or of all ``*.jsonl`` below a folder in the order of their paths."""

    def __init__(self, split: str, path: Path, settings: MathSettings) -> None:
        """Raises ``EnvDataError`` with file and line where a problem or answer is missing."""
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            raise EnvDataError(
                f"{split}: there is no JSONL file at '{path}'; give a file with one problem a line, a folder of "
                "such files, or 'generated'"
            )
        self.path, self._tasks, digest = path, [], hashlib.sha256()
        for file in files:
            raw = file.read_bytes()
            digest.update(raw)
            self._tasks += _read(file, raw, settings)
        self.sha256 = digest.hexdigest()
        self.release = releases(files)
        if not self._tasks:
            raise EnvDataError(f"{split}: '{path}' holds no problem")

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def header(self) -> dict[str, Any]:
        return {
            "problems": str(self.path),
            "sha256": self.sha256,
            "release": self.release,
            "tasks": len(self._tasks),
        }


def _read(file: Path, raw: bytes, settings: MathSettings) -> list[Task]:
    tasks = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise EnvDataError(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise EnvDataError(f"{where}: not a JSON object with a problem and an answer")
        problem = _field(row, settings.problem_field, _PROBLEM, "problem", where)
        answer = _field(row, settings.answer_field, _ANSWER, "answer", where)
        tasks.append(
            Task(
                id=f"{file.stem}-{number:05d}",
                env="math",
                instruction=problem.strip(),
                type=file.stem,
                data={"answer": answer.strip()},
            )
        )
    return tasks


def _field(row: dict[str, Any], given: str | None, usual: Sequence[str], what: str, where: str) -> str:
    for name in (given,) if given else usual:
        value = row.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    tried = given or ", ".join(usual)
    raise EnvDataError(
        f"{where}: no {what} in {tried}; it has {', '.join(map(str, row)) or 'no fields'}: set {what}_field"
    )
