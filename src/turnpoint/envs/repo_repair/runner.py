"""Run tests of a tree in the sandbox: what passed, and a report that is the same every time."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from turnpoint.envs.repo_repair.sandbox import File, Ran, Sandbox
from turnpoint.envs.repo_repair.tree import Tree

_ARGUMENTS = (
    *("-q", "-p", "no:cacheprovider", "--tb=short", "--rootdir=/repo", "--basetemp=/tmp/pytest"),
    "--continue-on-collection-errors",
)
_SCRUBBED = (
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x…"),
    (re.compile(r"/tmp/pytest(?:-of-\w+)?/[\w./-]+"), "/tmp/…"),
    (re.compile(r"/opt/(?:site|python)/\S*?/(?=[\w.]+\.py)"), ""),
    (re.compile(r"\b\d+\.\d+ ?(?:s|ms|seconds)\b"), "… s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?"), "…"),
    (re.compile(r"/repo/"), ""),
)


_TOO_MUCH = {"time": "took too long", "memory": "used too much memory", "report": "reported too much"}
"""What a run did that was ended."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One test that failed, or a file that could not be collected."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of tests gave."""

    passed: frozenset[str] = frozenset()
    failed: tuple[Failure, ...] = ()
    skipped: int = 0
    fault: str = ""
    """Why there is no result, in words for the agent; empty if the run came to its end."""
    lines: frozenset[tuple[str, int]] = frozenset()
    """Executed lines, where they were followed."""
    cpu: float = field(default=0.0, compare=False)
    """Seconds of CPU time until the run came to its end."""


def scrub(text: str) -> str:
    """Text without addresses, temporary paths and times, which differ from run to run."""
    for pattern, instead in _SCRUBBED:
        text = pattern.sub(instead, text)
    return text


class Runner:
    """Runs tests; results of equal trees are remembered."""

    def __init__(self, sandbox: Sandbox, remember: int) -> None:
        self.sandbox = sandbox
        self._run: Callable[[_Job], Result] = lru_cache(maxsize=remember)(self._fresh)

    def run(self, tree: Tree, selection: Sequence[str] = (), *, canary: bool = False) -> Result:
        """Run tests: files, or single ones as ``file::name``; none given = all that pytest finds.

        ``canary``: add a test that must fail; a run in which it passes was tampered with, and has only a fault.
        """
        try:
            return self._run(_Job(tree, tuple(selection), canary))
        except _OutOfTime as late:
            return late.result

    def _fresh(self, job: _Job) -> Result:
        """Run; what the wall clock ended is not remembered, since another time it may come to its end."""
        files, name = job.tree.files(), ""
        selection = list(job.selection)
        if job.canary:
            name = f"test_{secrets.token_hex(6)}.py"
            files[name] = File(b"def test_it():\n    assert [] == [0]\n")
            selection.append(name)
        ran = self.sandbox.run(files, arguments=[*_ARGUMENTS, *selection])
        result = read(ran, name)
        if ran.ended == "time":
            raise _OutOfTime(result)
        return result

    def lines(self, tree: Tree, selection: Sequence[str]) -> Result:
        """Like ``run``, with the executed lines."""
        return read(self.sandbox.run(tree.files(), arguments=[*_ARGUMENTS, *selection], trace=True))

    def each(
        self,
        tree: Tree,
        variants: Sequence[Mapping[str, str]],
        selection: Sequence[str] = (),
        cpu_each: float = 1.0,
        *,
        stop: bool = False,
    ) -> list[Result]:
        """Results of trees that differ from ``tree`` in the text of some files, in one sandbox: much faster.

        ``stop``: end each at its first failure.
        """
        if not variants:
            return []
        arguments = [*_ARGUMENTS, "--tb=line", *(["-x"] if stop else []), *selection]
        ran = self.sandbox.run(tree.files(), arguments=arguments, variants=variants, cpu_each=cpu_each)
        facts: list[list[dict[str, Any]]] = [[] for _ in variants]
        for fact in ran.facts:
            facts[int(fact["variant"])].append(fact)
        return [read(Ran(ran.code, "", ended=ran.ended, facts=own)) for own in facts]


class _OutOfTime(Exception):
    """Carries a result past the memory of results."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class _Job:
    """A run; equal for equal contents."""

    def __init__(self, tree: Tree, selection: tuple[str, ...], canary: bool) -> None:
        self.tree, self.selection, self.canary = tree, selection, canary
        self._key = (tree.key, selection, canary)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Job) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def read(ran: Ran, canary: str = "") -> Result:
    """The result of a run from what it reported; ``canary``: file of a test that must have failed."""
    outcome: dict[str, str] = {}
    failures: dict[str, str] = {}
    lines: Collection[tuple[str, int]] = ()
    ended, skipped, cpu = False, 0, 0.0
    for fact in ran.facts:
        if "end" in fact:
            ended, cpu = True, float(fact["cpu"])
        if "lines" in fact:
            lines = [(str(path), int(line)) for path, line in fact["lines"]]
        if "id" not in fact:
            continue
        test = str(fact["id"])
        if fact["outcome"] == "failed":
            failures.setdefault(test, scrub(str(fact["text"])))
        elif fact["outcome"] == "skipped" and not fact.get("xfail"):
            skipped += 1
        elif fact["when"] == "call":
            outcome[test] = "passed"
    if fault := _fault(ran, ended):
        return Result(fault=fault)
    spied = [test for test in failures if canary and test.startswith(f"{canary}::")]
    if canary and (len(spied) != 1 or ran.forged):
        return Result(fault="The test run was tampered with.")
    passed = frozenset(test for test in outcome if test not in failures)
    failed = tuple(Failure(test, text) for test, text in failures.items() if test not in spied)
    return Result(passed, failed, skipped, "", frozenset(lines), cpu)


def _fault(ran: Ran, ended: bool) -> str:
    if ran.ended:
        return f"The tests {_TOO_MUCH[ran.ended]} and were ended."
    if not ended:
        last = scrub(ran.output.strip())[-400:]
        return f"The test run broke off.{f' Its last words: {last}' if last else ''}"
    return ""


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]
