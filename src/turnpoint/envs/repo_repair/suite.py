"""Repositories with their tasks: what the ``repo_repair`` section of a run config builds."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.repo_repair.actions import INSTRUCTIONS
from turnpoint.envs.repo_repair.builder import BUILDER_VERSION
from turnpoint.envs.repo_repair.env import RepoRepairEnv
from turnpoint.envs.repo_repair.records import Record
from turnpoint.envs.repo_repair.runner import Runner
from turnpoint.envs.repo_repair.sandbox import Sandbox
from turnpoint.envs.repo_repair.settings import RepoRepairSettings
from turnpoint.envs.repo_repair.shelf import Shelf
from turnpoint.envs.repo_repair.state import Job
from turnpoint.envs.repo_repair.words import vocabulary
from turnpoint.records import Task

_LONGEST = 300
"""Characters of a task's one-line instruction."""
LISTED_INSTRUCTIONS = (
    "You repair a fault in a Python repository. test runs the tests; open PATH shows a file and what can be changed in "
    "it; edit PATH LINE: TEXT makes one of these changes, in place of the one before; submit hands the repository in."
)


class RepoRepairSuite:
    """A file of tasks and the sandbox in which they are judged."""

    name = "repo_repair"

    def __init__(self, settings: RepoRepairSettings) -> None:
        """Raises ``EnvDataError`` if the tasks are unusable or no sandbox can be made."""
        self.settings = settings
        self.max_turns = settings.max_turns
        listed = settings.actions == "listed"
        self.instructions = LISTED_INSTRUCTIONS if listed else INSTRUCTIONS
        self.capabilities = replace(type(settings).capabilities, admissible=listed)
        self.shelf = Shelf(settings.file)
        self.file = self.shelf.file
        if listed and self.file.header.get("builder") != BUILDER_VERSION:
            raise EnvDataError(
                f"actions: listed needs tasks built by this version ({BUILDER_VERSION}) of prepare, since the list of "
                f"changes belongs to it; '{settings.tasks}' has {self.file.header.get('builder', 'none')}: build it "
                "again, or set actions: open"
            )
        if listed and (lacking := [r.id for r in self.file.records if not r.fixes]):
            raise EnvDataError(
                f"actions: listed needs tasks whose repair is one line, built by prepare; {lacking[0]} of "
                f"'{settings.tasks}' is none: set actions: open"
            )
        self._tasks = {
            split: [self._task(record) for record in self.file.records if record.split == split]
            for split in ("train", "valid")
        }
        self._runner = functools.lru_cache(maxsize=None)(self._new_runner)
        self._runner(self.file.records[0].requires)

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid``, in the order of the file."""
        if split not in self._tasks:
            raise EnvDataError(f"repo_repair has no split '{split}'; use train or valid")
        if not self._tasks[split]:
            raise EnvDataError(
                f"tasks: '{self.settings.tasks}' has none of split {split}; build more of them or, for "
                "SWE-bench, prepare it with split: divided"
            )
        return self._tasks[split]

    def make(self) -> RepoRepairEnv:
        """A new copy; copies share repositories, the sandbox, and results of tests."""
        return RepoRepairEnv(self.settings, self.capabilities, self._open)

    def header(self) -> dict[str, Any]:
        """The file of tasks, its hash and how it was made, and the test runner's version."""
        made = {name: value for name, value in self.file.header.items() if name not in ("format", "version")}
        return {
            "env": self.name,
            "file": self.settings.tasks,
            "sha256": self.file.sha256,
            **made,
            "pytest": version("pytest") if self.settings.sandbox.python is None else "of sandbox.python",
            "tasks": {split: len(tasks) for split, tasks in self._tasks.items()},
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word of the repositories and their changes; raises ``EnvError`` where any text can be written."""
        if self.settings.actions == "open":
            raise EnvError("code is an open language; a closed one has actions: listed")
        return vocabulary(self.shelf.job(record.id) for record in self.file.records)

    def _task(self, record: Record) -> Task:
        return Task(
            id=record.id,
            env=self.name,
            instruction=_first_line(record.problem) or record.id,
            type=record.type,
            data={"tasks": self.file.sha256, "repository": record.repository},
        )

    def _open(self, task: Task) -> tuple[Job, Runner]:
        if task.id not in self.shelf.records or task.data.get("tasks", self.file.sha256) != self.file.sha256:
            raise EnvError(
                f"task {task.id} belongs to another file of tasks ({task.data.get('tasks')}, here "
                f"{self.file.sha256}); use the env section of the run it comes from"
            )
        return self.shelf.job(task.id), self._runner(self.shelf.record(task.id).requires)

    def _new_runner(self, requires: tuple[str, ...]) -> Runner:
        return Runner(Sandbox(self.settings.sandbox, requires), self.settings.remember)


def _first_line(problem: str) -> str:
    """The first line of a problem, cut between words."""
    line = next(iter(problem.strip().splitlines()), "")
    return line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(" ", 1)[0]
