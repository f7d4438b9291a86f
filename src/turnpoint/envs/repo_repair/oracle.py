"""The way to a repaired repository: known from the gold patch, and for listed play from every change that repairs."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import combinations

from turnpoint.envs.repo_repair.actions import edit_lines
from turnpoint.envs.repo_repair.judge import judge
from turnpoint.envs.repo_repair.runner import Runner
from turnpoint.envs.repo_repair.state import State
from turnpoint.envs.repo_repair.tree import Tree

_MOST = 3
"""Files with damage up to which the fewest that need repair are searched for; beyond, all are."""


def distance(state: State, runner: Runner, *, listed: bool) -> int | None:
    """Turns to a submission that counts; None after one that does not.

    Listed: exact. Open: one turn for each file that has to be brought to the gold patch, and one to submit; another
    repair counts as soon as its tests pass.
    """
    if state.verdict is not None:
        return 0 if state.verdict.solved else None
    if listed:
        if state.tree.key in state.job.proposals.solved:
            return 1
        return 2 if state.job.proposals.fixing(state.opened) else 3
    return 1 + len(_needed(state, runner))


def best_full(state: State, runner: Runner, *, listed: bool) -> list[str]:
    """Every listed action that lowers the distance; open: the gold edit of each file that needs one."""
    if state.verdict is not None:
        return []
    proposals = state.job.proposals
    if listed:
        if state.tree.key in proposals.solved:
            return ["submit"]
        if fixing := proposals.fixing(state.opened):
            return list(fixing)
        return [f"open {path}" for path in proposals.files if proposals.fixing(path)]
    needed = _needed(state, runner)
    return [gold_edit(state, path) for path in needed] if needed else ["submit"]


def best_observed(state: State, runner: Runner, *, listed: bool) -> list[str]:
    """For an agent that knows what it was shown: run the tests, open the file, repair it, submit."""
    best = best_full(state, runner, listed=listed)
    if not best or best == ["submit"]:
        return best
    if not state.tested:
        return ["test"]
    if listed:
        return best
    unseen = [path for path in _needed(state, runner) if path not in state.shown]
    return [opening(state, unseen[0])] if unseen else best


def passes(tree: Tree, state: State, runner: Runner) -> bool:
    """Whether ``tree`` would count if it were submitted."""
    job = state.job
    if tree.key == job.gold.key:
        return True
    if tree.key == job.tree.key:
        return False  # what the builder, or the benchmark, made sure of
    return judge(tree, job.record, runner).solved


def gold_edit(state: State, path: str) -> str:
    """The action that brings ``path`` to the gold patch: an edit of the lines from its first difference to its last."""
    gold = state.job.gold
    if path not in gold.paths:
        return f"edit {path} 1-{max(1, len(state.tree.lines(path)))}"
    if path not in state.tree.paths:
        return f"create {path}\n{gold.text(path)}".rstrip("\n")
    old, new = state.tree.lines(path), gold.lines(path)
    first, last, low, high = _difference(old, new)
    while low < high < len(new) and last + 1 < len(old) and not new[high - 1].strip():
        last, high = last + 1, high + 1  # white space at the end of an action is not kept
    return edit_lines(path, first + 1, last + 1, "\n".join(new[low:high]))


def opening(state: State, path: str) -> str:
    """The action that shows the lines to repair."""
    if path not in state.tree.paths:
        return "list"
    gold = state.job.gold
    old = state.tree.lines(path)
    new = gold.lines(path) if path in gold.paths else []
    first, last, _, _ = _difference(old, new)
    return f"open {path} {max(1, first - 4)}-{max(1, min(len(old), last + 6))}"


def _difference(old: list[str], new: list[str]) -> tuple[int, int, int, int]:
    """First and last differing line of ``old`` (from 0, inclusive), and the lines of ``new`` in their place."""
    blocks = [b for b in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if b[0] != "equal"]
    if not blocks:
        return 0, -1, 0, 0
    return blocks[0][1], blocks[-1][2] - 1, blocks[0][3], blocks[-1][4]


def _needed(state: State, runner: Runner) -> list[str]:
    """The fewest files that have to be brought to the gold patch."""
    tree, gold = state.tree, state.job.gold
    differing = sorted(
        path
        for path in set(tree.changes) | set(gold.changes)
        if tree.changes.get(path, path) != gold.changes.get(path, path)
    )
    if passes(tree, state, runner):
        return []
    if len(differing) <= _MOST:
        for size in range(1, len(differing)):
            for chosen in combinations(differing, size):
                if passes(mended(state, chosen), state, runner):
                    return list(chosen)
    return differing


def mended(state: State, paths: tuple[str, ...]) -> Tree:
    """The tree with ``paths`` as in the gold patch."""
    gold = state.job.gold
    changes = dict(state.tree.changes)
    for path in paths:
        changes.pop(path, None)
        if path in gold.changes:
            changes[path] = gold.changes[path]
    return Tree(state.tree.base, changes)
