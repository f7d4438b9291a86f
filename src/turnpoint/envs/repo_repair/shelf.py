"""Repositories of a file of tasks, read when they are asked for; no sandbox is needed for that."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.repo_repair.actions import Misunderstood, parse
from turnpoint.envs.repo_repair.builder import with_line
from turnpoint.envs.repo_repair.clones import read_clone
from turnpoint.envs.repo_repair.editing import edited
from turnpoint.envs.repo_repair.records import Clone, Record, read_tasks
from turnpoint.envs.repo_repair.runner import file_of
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.state import Job
from turnpoint.envs.repo_repair.tree import Repository, Tree, TreeError

_JOBS_KEPT = 64
_REPOSITORIES_KEPT = 4
_EDITS = ("edit", "insert", "replace", "create", "undo")


class Shelf:
    """A file of tasks with its repositories."""

    def __init__(self, path: Path) -> None:
        """Raises ``EnvDataError`` if the file is unusable."""
        self.file = read_tasks(path)
        self.records = {record.id: record for record in self.file.records}
        self._files = functools.lru_cache(maxsize=_REPOSITORIES_KEPT)(self._read)
        self._job = functools.lru_cache(maxsize=_JOBS_KEPT)(self._new_job)

    def record(self, task: str) -> Record:
        """The record of a task. Raises ``EnvError`` if there is none."""
        if task not in self.records:
            raise EnvError(f"there is no task {task} in this file of tasks")
        return self.records[task]

    def job(self, task: str) -> Job:
        """The repository of a task. Raises ``EnvError`` if there is none, or its clone cannot be read."""
        self.record(task)
        return self._job(task)

    def _read(self, repository: str) -> dict[str, File]:
        content = self.file.repositories[repository]
        return read_clone(content) if isinstance(content, Clone) else dict(content)

    def _new_job(self, task: str) -> Job:
        record = self.records[task]
        files = dict(self._files(record.repository))
        gold = dict(record.gold)
        if record.fault is not None:
            path, whole = record.fault.path, files[record.fault.path]
            text = whole.data.decode()
            gold[path] = text
            files[path] = File(with_line(text, record.fault.line, record.fault.text).encode(), whole.mode)
        tree = Tree(Repository(record.repository, files))
        visible = tuple(test for test in record.fail_to_pass if file_of(test) in files and not record.tests)
        return Job(record, tree, Tree(tree.base, gold), visible)


def handed_in(job: Job, actions: Iterable[str]) -> Tree:
    """The tree that recorded actions of open play lead to; those that were not accepted change nothing."""
    tree = job.tree
    for action in actions:
        try:
            command = parse(action)
            tree = edited(tree, command) if command.verb in _EDITS else tree
        except (Misunderstood, TreeError):
            continue
    return tree
