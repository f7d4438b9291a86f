"""Grading: the agent's tree with the tests of the task put back, run once, every test by name."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.repo_repair.records import Record
from turnpoint.envs.repo_repair.runner import Runner, file_of
from turnpoint.envs.repo_repair.tree import Tree

_SETTINGS = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py"}
    | {"usercustomize.py", "pytest.py", "pluggy.py"}
)
_FOLDERS = frozenset({"tests", "test", "testing", "_pytest", "pytest", "pluggy"})


class Verdict(NamedTuple):
    """Whether a repair counts, and why not."""

    solved: bool
    reason: str = ""
    """Empty, ``fail_to_pass``, ``pass_to_pass``, or a sentence on why the tests could not be run."""
    passed: int = 0
    """Tests among those that count which pass."""


def is_protected(path: str) -> bool:
    """Whether changes of ``path`` are undone before grading: tests, and what decides how they run."""
    pure = PurePosixPath(path)
    name = pure.name
    return (
        name in _SETTINGS
        or bool(_FOLDERS & set(pure.parts))
        or name.startswith("test_")
        or name.endswith("_test.py")
    )


def graded(tree: Tree, record: Record) -> Tree:
    """The tree that is judged; what the gold patch changes itself is never put back."""
    counted = {file_of(test) for test in (*record.fail_to_pass, *record.pass_to_pass)}
    kept = {
        path: text
        for path, text in tree.changes.items()
        if path in record.gold or not (is_protected(path) or path in counted)
    }
    return Tree(tree.base, {**kept, **record.tests})


def judge(tree: Tree, record: Record, runner: Runner) -> Verdict:
    """Solved if all of FAIL_TO_PASS and of PASS_TO_PASS pass. Raises ``EnvError`` if no test counts."""
    wanted = (*record.fail_to_pass, *record.pass_to_pass)
    if not record.fail_to_pass:
        raise EnvError(f"task {record.id} has no test that must come to pass")
    files = sorted({file_of(test) for test in wanted})
    result = runner.run(graded(tree, record), files, canary=True)
    if result.fault:
        return Verdict(False, result.fault)
    passed = sum(test in result.passed for test in wanted)
    for reason, tests in (("fail_to_pass", record.fail_to_pass), ("pass_to_pass", record.pass_to_pass)):
        if any(test not in result.passed for test in tests):
            return Verdict(False, reason, passed)
    return Verdict(True, "", passed)
