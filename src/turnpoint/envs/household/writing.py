"""Writes games as files: in ALFWorld's own format, which TextWorld plays, or in a compact one for this package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnpoint.envs.household.goals import goal_text
from turnpoint.envs.household.problem import FORMAT, TASK_PATTERN, GameFileError, Problem, read_document

# Types that ALFWorld's domain names as constants; planners want them declared even where nothing has them.
_CONSTANTS = {
    "sinktype": "otype",
    "sinkbasintype": "rtype",
    "microwavetype": "rtype",
    "fridgetype": "rtype",
    "knifetype": "otype",
    "butterknifetype": "otype",
}
# What the arguments of a predicate are; the other predicates speak of objects.
_SORTS = {
    "receptacletype": ("receptacle", "rtype"),
    "receptacleatlocation": ("receptacle", "location"),
    "objecttype": ("object", "otype"),
    "objectatlocation": ("object", "location"),
    "inreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "cancontain": ("rtype", "otype"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "atlocation": ("agent", "location"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
}


def write_game(problem: Problem, path: Path, template: Path | None = None) -> None:
    """Write ``problem`` to ``path`` (by custom ``game.tw-pddl``); reading it back gives an equal problem.

    With ``template``, any released game file, its domain and grammar are used and TextWorld and ALFWorld can
    play the result; without one the file is compact and only this package reads it.
    """
    document: dict[str, Any]
    if template is None:
        document = {"format": FORMAT, "task": problem.task}
    else:
        source = read_document(template)
        domain, grammar = source.get("pddl_domain"), source.get("grammar")
        if not isinstance(domain, str) or not isinstance(grammar, str):
            raise GameFileError(f"{template}: has no domain and grammar to borrow; give a released game file")
        found = TASK_PATTERN.search(grammar)
        if found is None:
            raise GameFileError(f"{template}: its grammar has no task sentence to replace")
        task = json.dumps(problem.task)[1:-1]
        document = {
            "pddl_domain": domain,
            "grammar": grammar[: found.start(1)] + task + grammar[found.end(1) :],
        }
    document |= {
        "pddl_problem": problem_text(problem),
        "solvable": True,
        "walkthrough": list(problem.walkthrough),
    }
    path.write_text(json.dumps(document), encoding="utf-8")


def problem_text(problem: Problem) -> str:
    """The PDDL problem."""
    facts = sorted(problem.facts)
    return "\n".join(
        [
            "(define (problem household)",
            "(:domain alfred)",
            "(:objects",
            *(f"{name} - {sort}" for name, sort in _declared(problem)),
            ")",
            "(:init",
            *(f"({' '.join(fact)})" for fact in facts),
            ")",
            goal_text(problem.goal),
            ")",
        ]
    )


def _declared(problem: Problem) -> Iterable[tuple[str, str]]:
    sorts = dict(_CONSTANTS)
    for name, *arguments in problem.facts:
        for argument, sort in zip(arguments, _SORTS.get(name, ("object",)), strict=False):
            sorts.setdefault(argument, sort)
    return sorted(sorts.items(), key=lambda item: (item[1], item[0]))
