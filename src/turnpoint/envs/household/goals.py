"""The six ALFWorld task types: their goals in PDDL and the predicates they need."""

from __future__ import annotations

import re
from dataclasses import dataclass

SIMPLE = "pick_and_place_simple"
LOOK = "look_at_obj_in_light"
CLEAN = "pick_clean_then_place_in_recep"
HEAT = "pick_heat_then_place_in_recep"
COOL = "pick_cool_then_place_in_recep"
TWO = "pick_two_obj_and_place"
TASK_TYPES = (SIMPLE, LOOK, CLEAN, HEAT, COOL, TWO)
"""Names as ALFWorld's folders have them."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """How an object gets the property that a task asks for."""

    verb: str
    able: str
    """Predicate of objects that can be treated."""
    done: str
    """Predicate of objects that have been treated."""
    undoes: str | None
    """Predicate that the treatment removes."""
    places: tuple[str, ...]
    """Receptacle types where it is done."""


TREATMENTS = {
    CLEAN: Treatment("clean", "cleanable", "isclean", None, ("sinktype", "sinkbasintype")),
    HEAT: Treatment("heat", "heatable", "ishot", "iscool", ("microwavetype",)),
    COOL: Treatment("cool", "coolable", "iscool", "ishot", ("fridgetype",)),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to hold at the end. Types are lower-case PDDL names such as ``mugtype``."""

    kind: str
    """One of ``TASK_TYPES``."""
    target: str
    """Type of the object to find."""
    receptacle: str | None = None
    """Type of the receptacle it must end in; None for ``look_at_obj_in_light``."""
    lamp: str | None = None
    """Type of the lamp for ``look_at_obj_in_light``."""


_PLACE = {
    SIMPLE: "(exists (?r - receptacle) (exists (?o - object) (and (inreceptacle ?o ?r) "
    "(objecttype ?o {target}) (receptacletype ?r {receptacle}))))",
    TWO: "(exists (?r - receptacle) (exists (?o1 - object) (and (objecttype ?o1 {target}) "
    "(receptacletype ?r {receptacle}) (inreceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) "
    "(objecttype ?o2 {target}) (receptacletype ?r {receptacle}) (inreceptacle ?o2 ?r))))))",
    LOOK: "(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objecttype ?ot {lamp}) "
    "(toggleable ?ot) (istoggled ?ot) (receptacleatlocation ?r ?l) (atlocation ?a ?l) "
    "(inreceptacle ?ot ?r))) "
    "(exists (?o - object ?a - agent) (and (objecttype ?o {target}) (holds ?a ?o)))",
} | {
    kind: "(exists (?r - receptacle) (exists (?o - object) (and ("
    + how.able
    + " ?o) (objecttype ?o {target}) "
    "(receptacletype ?r {receptacle}) (" + how.done + " ?o) (inreceptacle ?o ?r))))"
    for kind, how in TREATMENTS.items()
}


def goal_text(goal: Goal) -> str:
    """The goal as PDDL, lower-case."""
    inner = _PLACE[goal.kind].format(target=goal.target, receptacle=goal.receptacle, lamp=goal.lamp)
    return f"(:goal (and {inner}))"


def parse_goal(text: str) -> Goal:
    """Read the lower-case ``(:goal ...)`` section of a PDDL problem.

    Raises ``ValueError`` unless it is exactly one of the six ALFWorld forms.
    """
    objects = re.findall(r"objecttype \?\w+ ([^\s()]+)", text)
    receptacles = re.findall(r"receptacletype \?\w+ ([^\s()]+)", text)
    section = _squeeze(text)
    for kind in TASK_TYPES:
        if not objects or (kind != LOOK and not receptacles):
            continue
        goal = Goal(kind, objects[0], receptacles[0]) if kind != LOOK else _look_goal(objects)
        wanted = _squeeze(goal_text(goal))
        # The problem's own closing bracket follows the goal.
        if section in (wanted, wanted + ")"):
            return goal
    raise ValueError("its goal is none of the six ALFWorld task types")


def _look_goal(objects: list[str]) -> Goal:
    return Goal(LOOK, objects[-1], lamp=objects[0])


def _squeeze(text: str) -> str:
    return re.sub(r"\s*([()])\s*", r"\1", " ".join(text.split()))
