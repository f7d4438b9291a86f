"""Household problems as ground facts, and the files they are read from and written to.

Released ALFWorld games are JSON files called ``game.tw-pddl`` with a PDDL domain, a text grammar (both the
same in every game), a PDDL problem and a walkthrough. Domain and grammar are built into the engine: only the
problem, the task sentence and the help text are read. Everything is lower-cased, as TextWorld does.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnpoint.envs.household.goals import Goal, parse_goal
from turnpoint.envs.protocol import EnvDataError

Fact = tuple[str, ...]
"""A predicate and its arguments, lower-case: ``("inreceptacle", object, receptacle)``."""

FORMAT = "turnpoint-household"
"""Marks files without domain and grammar; only this package reads them."""

HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
"""Answer to ``help``, verbatim as ALFWorld's grammar has it (MIT licence)."""


class GameFileError(EnvDataError):
    """A game cannot be used: the message names the file and says why."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What defines a game. Equal problems play identically."""

    task: str
    """The sentence the agent is given: ``Your task is to: ...``."""
    goal: Goal
    facts: frozenset[Fact]
    """Facts that hold at the start; what is absent is false."""
    walkthrough: tuple[str, ...] = ()
    """A shortest solution as commands."""
    help: str = field(default=HELP, repr=False)


_FACT = re.compile(r"\(([^()]+)\)")
TASK_PATTERN = re.compile(r'"task": \[\s*\{\s*"rhs": "(.*?)"', re.S)
"""Where a grammar holds the task sentence (group 1, as inside a JSON string)."""
_HELP = re.compile(r'feedback :: "\n(Available commands:.*?)";', re.S)


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object in a game file. Raises ``GameFileError`` if there is none."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise GameFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_document(raw, path)


def parse_document(raw: bytes, path: Path) -> dict[str, Any]:
    """The JSON object in the bytes of ``path``; a file cut short raises ``GameFileError``."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise GameFileError(f"{path}: is not a complete JSON file ({error}); fetch it again") from error
    if not isinstance(document, dict):
        raise GameFileError(f"{path}: holds {type(document).__name__}, not a game")
    return document


def parse_header(document: dict[str, Any], path: Path) -> tuple[str, Goal]:
    """Task sentence and goal of a game, without its facts; raises ``GameFileError``."""
    return _task(document, path), _goal(_problem_text(document, path), path)


def parse_problem(document: dict[str, Any], path: Path) -> Problem:
    """The problem of a game document read from ``path``; raises ``GameFileError``."""
    text = _problem_text(document, path)
    walkthrough = document.get("walkthrough", [])
    if not isinstance(walkthrough, list) or not all(isinstance(line, str) for line in walkthrough):
        raise GameFileError(f"{path}: 'walkthrough' is not a list of commands")
    facts = {tuple(m.split()) for m in _FACT.findall(text[text.index("(:init") + 6 : text.index("(:goal")])}
    return Problem(
        task=_task(document, path),
        goal=_goal(text, path),
        facts=frozenset(fact for fact in facts if fact[0] not in ("=", "distance")),
        walkthrough=tuple(walkthrough),
        help=_help(document),
    )


def _problem_text(document: dict[str, Any], path: Path) -> str:
    text = document.get("pddl_problem")
    if not isinstance(text, str):
        raise GameFileError(f"{path}: has no 'pddl_problem'; it is not an ALFWorld game file")
    text = text.lower()
    init, goal = text.find("(:init"), text.find("(:goal")
    if init < 0 or goal < init or text.count("(") != text.count(")"):
        raise GameFileError(f"{path}: the PDDL problem is cut short or has no (:init ...) and (:goal ...)")
    return text


def _goal(text: str, path: Path) -> Goal:
    try:
        return parse_goal(text[text.index("(:goal") :])
    except ValueError as error:
        raise GameFileError(f"{path}: {error}") from error


def _task(document: dict[str, Any], path: Path) -> str:
    if document.get("format") == FORMAT:
        task = document.get("task")
        if isinstance(task, str):
            return task
        raise GameFileError(f"{path}: has no 'task' sentence")
    grammar = document.get("grammar")
    if not isinstance(grammar, str):
        raise GameFileError(f"{path}: has no 'grammar'; it is not an ALFWorld game file")
    found = TASK_PATTERN.search(grammar)
    if found is None:
        raise GameFileError(f"{path}: its grammar has no task sentence")
    if "move {o} to {r}" not in grammar:
        raise GameFileError(
            f"{path}: its grammar is older than ALFWorld 0.4 (no 'move ... to ...'); fetch 0.4 games"
        )
    return str(json.loads(f'"{found[1]}"'))


def _help(document: dict[str, Any]) -> str:
    found = _HELP.search(str(document.get("grammar", "")))
    return found[1] if found else HELP
