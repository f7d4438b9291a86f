"""Make tasks from a repository whose tests pass: inject a fault, and keep it if some tests fail and others do not."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.repo_repair.judge import is_protected
from turnpoint.envs.repo_repair.mutations import mutations
from turnpoint.envs.repo_repair.records import Change, Record
from turnpoint.envs.repo_repair.runner import Result, Runner
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.tree import Repository, Tree
from turnpoint.envs.seeded import split_of

BUILDER_VERSION = 1
"""In the header of built files; raised whenever a seed gives other tasks."""
_BATCH = 40
_SLOWER = 4
"""How many times longer a run with a fault may take than one without."""
_TOLD = 5
"""Failing tests that the problem text names."""


class Built(NamedTuple):
    """Tasks of one repository, and how many faults were tried for them."""

    records: list[Record]
    tried: int
    passing: int
    """Tests of the unchanged repository that pass."""


def build(
    name: str,
    files: Mapping[str, File],
    runner: Runner,
    *,
    count: int,
    seed: int,
    requires: Sequence[str] = (),
) -> Built:
    """Up to ``count`` tasks; the same files and seed give the same ones.

    Raises ``EnvDataError`` if no test passes, or tests pass only now and then.
    """
    tree = Tree(Repository(name, files))
    sound = _steady(name, tree, runner)
    faults = [(path, m) for path in _sources(tree) for m in mutations(tree.text(path))]
    random.Random(f"repo_repair/{seed}/{name}").shuffle(faults)
    records: list[Record] = []
    tried = 0
    for start in range(0, len(faults), _BATCH):
        batch = faults[start : start + _BATCH]
        variants = [{path: with_line(tree.text(path), m.line, m.text)} for path, m in batch]
        for (path, m), result in zip(batch, runner.each(tree, variants, cpu_each=sound.cpu), strict=True):
            if len(records) == count:
                return Built(records, tried, len(sound.passed))
            tried += 1
            record = _record(name, tree, Change(path, m.line, m.text), m.rule, sound, result, runner)
            if record is not None:
                records.append(_named(record, len(records), requires))
    return Built(records, tried, len(sound.passed))


def with_line(text: str, number: int, line: str) -> str:
    """``text`` with another line ``number``."""
    lines = text.split("\n")
    lines[number - 1] = line
    return "\n".join(lines)


class _Sound(NamedTuple):
    """The repository without a fault."""

    passed: frozenset[str]
    """Tests that pass, twice."""
    cpu: float
    """CPU time after which a run with a fault has lost its way."""


def _steady(name: str, tree: Tree, runner: Runner) -> _Sound:
    first, again = runner.run(tree), runner.run(tree)
    if first.fault or not first.passed:
        reason = (
            first.fault or "; ".join(f"{f.id}: {f.text[-200:]}" for f in first.failed[:2]) or "there are none"
        )
        raise EnvDataError(f"package '{name}': no test of it passes as it is ({reason})")
    return _Sound(first.passed & again.passed, max(1.0, _SLOWER * first.cpu))


def _sources(tree: Tree) -> list[str]:
    return [path for path in tree.paths if path.endswith(".py") and not is_protected(path)]


def _record(
    name: str, tree: Tree, fault: Change, rule: str, sound: _Sound, result: Result, runner: Runner
) -> Record | None:
    """The task of a fault; None if no test notices it, all do, or the run breaks off."""
    failing, passing = sorted(sound.passed - result.passed), sorted(sound.passed & result.passed)
    if result.fault or not failing or not passing:
        return None
    broken = tree.write(fault.path, with_line(tree.text(fault.path), fault.line, fault.text))
    seen = runner.lines(broken, failing)
    if seen.fault or set(failing) & seen.passed:
        return None  # it fails only now and then, or only together with others
    undone = Change(fault.path, fault.line, tree.text(fault.path).split("\n")[fault.line - 1])
    fixes = _fixes(broken, undone, seen.lines, failing, sound, runner)
    return Record(
        id="",
        repository=name,
        problem=_problem(broken, fault, failing),
        fail_to_pass=tuple(failing),
        pass_to_pass=tuple(passing),
        type=rule,
        split=split_of(f"{name}/{fault.path}/{fault.line}/{fault.text}"),
        fault=fault,
        fixes=fixes,
    )


def _fixes(
    broken: Tree,
    undone: Change,
    lines: frozenset[tuple[str, int]],
    failing: Sequence[str],
    sound: _Sound,
    runner: Runner,
) -> tuple[Change, ...]:
    """Every listed change of one line that repairs ``broken``; lines that failing tests do not reach cannot."""
    reached = {path: {line for other, line in lines if other == path} for path in _sources(broken)}
    tried = [
        change
        for path in reached
        for change in listed_changes(broken.text(path), path, undone)
        if change != undone and _touches(broken.text(path), change.line, reached[path])
    ]
    hopeful: list[Change] = []
    for start in range(0, len(tried), _BATCH):
        batch = tried[start : start + _BATCH]
        variants = [{c.path: with_line(broken.text(c.path), c.line, c.text)} for c in batch]
        results = runner.each(broken, variants, failing, sound.cpu, stop=True)
        hopeful += [c for c, r in zip(batch, results, strict=True) if set(failing) <= r.passed]
    variants = [{c.path: with_line(broken.text(c.path), c.line, c.text)} for c in hopeful]
    results = runner.each(broken, variants, cpu_each=sound.cpu, stop=True)
    return (
        undone,
        *(c for c, r in zip(hopeful, results, strict=True) if not r.fault and sound.passed <= r.passed),
    )


def _touches(source: str, line: int, reached: set[int]) -> bool:
    """Whether a statement that holds ``line`` was reached; its lines are not all told by an interpreter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if line <= max(last, node.lineno) and reached & set(
                range(node.lineno, max(last, node.lineno) + 1)
            ):
                return True
    return False


def listed_changes(source: str, path: str, undone: Change) -> list[Change]:
    """The changes of one line that may be chosen in a file: all mutations, and the repair."""
    found = {(m.line, m.text) for m in mutations(source)}
    if undone.path == path:
        found.add((undone.line, undone.text))
    return [Change(path, line, text) for line, text in sorted(found)]


def _problem(broken: Tree, fault: Change, failing: Sequence[str]) -> str:
    told = ", ".join(failing[:_TOLD]) + (f" and {len(failing) - _TOLD} more" if len(failing) > _TOLD else "")
    return f"A recent change broke this package. These tests fail and must pass again: {told}."


def _named(record: Record, number: int, requires: Sequence[str]) -> Record:
    from dataclasses import replace

    return replace(record, id=f"{record.repository}-{number:03d}", requires=tuple(requires))
