"""What the environment says."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.envs.repo_repair.judge import Verdict
from turnpoint.envs.repo_repair.runner import Failure, Result
from turnpoint.envs.repo_repair.tree import Tree, TreeError

START = "{problem}\nFiles:\n{files}"
ENDED = "The repository was handed in already."
SUBMITTED = "The repository was handed in: "
NOT_LISTED = "This is not among the possible actions."
OUTCOMES = {
    "": "all tests that count pass.",
    "fail_to_pass": "tests that had to pass still fail.",
    "pass_to_pass": "tests that passed before fail now.",
}
_MOST_FILES = 60
_MOST_HITS = 30
_WIDTH = 300


def start(problem: str, tree: Tree) -> str:
    """The first observation."""
    return START.format(problem=problem, files=listing(tree, ""))


def listing(tree: Tree, folder: str) -> str:
    """Files of the tree below ``folder``."""
    inside = [path for path in tree.paths if not folder or path.startswith(f"{folder.strip('./')}/")]
    if not inside:
        raise TreeError(f"There are no files in {folder}.")
    more = len(inside) - _MOST_FILES
    return "\n".join([*inside[:_MOST_FILES], *([f"and {more} more"] if more > 0 else [])])


def view(path: str, lines: Sequence[str], first: int, last: int) -> str:
    """Numbered lines ``first`` to ``last``."""
    if not lines:
        return f"{path} is empty."
    head = f"{path}, lines {first}-{last} of {len(lines)}:"
    return "\n".join([head, *(f"{n} {lines[n - 1][:_WIDTH]}" for n in range(first, last + 1))])


def hits(tree: Tree, wanted: str, path: str) -> str:
    """Lines that hold ``wanted``, with their places."""
    found: list[str] = []
    for name in [path] if path else tree.paths:
        try:
            lines = tree.lines(name)
        except TreeError:
            if path:
                raise
            continue
        found += [f"{name}:{n}: {line.strip()[:_WIDTH]}" for n, line in enumerate(lines, 1) if wanted in line]
        if len(found) > _MOST_HITS:
            return "\n".join([*found[:_MOST_HITS], "and more; search for something rarer."])
    return "\n".join(found) or "Nothing was found."


def report(result: Result, most: int) -> str:
    """Counts and the first failures of a test run."""
    if result.fault:
        return result.fault
    if not result.passed and not result.failed:
        return "No test was run."
    counts = f"{len(result.failed)} failed, {len(result.passed)} passed."
    return "\n".join([counts, *(_failure(failure) for failure in result.failed[:most])])


def brief(result: Result) -> str:
    """Counts and names alone: words that a closed vocabulary has."""
    if result.fault:
        return "broken off."
    names = [f"FAILED {failure.id}" for failure in result.failed]
    return "\n".join([f"{len(result.failed)} failed, {len(result.passed)} passed.", *names])


def _failure(failure: Failure) -> str:
    return f"FAILED {failure.id}\n{failure.text}".rstrip()


def submitted(verdict: Verdict) -> str:
    """What is said to a submission."""
    return SUBMITTED + OUTCOMES.get(verdict.reason, verdict.reason)


def cut(text: str, most: int) -> str:
    """Beginning and end of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
