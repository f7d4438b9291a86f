"""Builds games from problems and files: objects and receptacles numbered, named and indexed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnpoint.envs.household.game import NOWHERE, PROPERTIES, Game, State
from turnpoint.envs.household.goals import LOOK, TREATMENTS
from turnpoint.envs.household.problem import Fact, GameFileError, Problem, parse_problem, read_document

_PAIRS = frozenset(
    [
        "receptacleatlocation",
        "objectatlocation",
        "atlocation",
        "inreceptacle",
        "inreceptacleobject",
        "receptacletype",
        "objecttype",
        "cancontain",
        "holds",
    ]
)
"""Predicates with two arguments."""


def load_game(path: Path) -> Game:
    """Read and index a game file; raises ``GameFileError`` with the path and the reason."""
    return index_game(parse_problem(read_document(path), path), str(path))


def index_game(problem: Problem, source: str = "game") -> Game:
    """Number, name and index a problem. ``source`` names it in a ``GameFileError``."""
    facts = _by_predicate(problem.facts, source)
    names = display_names({argument for fact in problem.facts for argument in fact[1:]})
    receptacle_ids = sorted({fact[0] for fact in facts["receptacleatlocation"]})
    object_ids = sorted(
        {fact[0] for name in ("objecttype", "inreceptacle", "objectatlocation") for fact in facts[name]}
        | {thing for fact in facts["inreceptacleobject"] for thing in fact}
    )
    objects = {name: index for index, name in enumerate(object_ids)}
    receptacles = {name: index for index, name in enumerate(receptacle_ids)}
    place_ids = sorted(
        {
            fact[1]
            for name in ("receptacleatlocation", "objectatlocation", "atlocation")
            for fact in facts[name]
        }
    )
    places = {name: index for index, name in enumerate(place_ids)}
    _validate(facts, receptacles, source)

    placed = {fact[0]: fact[1] for fact in facts["receptacleatlocation"]}
    object_types = _typed(facts["objecttype"], object_ids)
    receptacle_types = _typed(facts["receptacletype"], receptacle_ids)
    locations = tuple(places[placed[name]] for name in receptacle_ids)
    at_location: list[list[int]] = [[] for _ in place_ids]
    for index, place in enumerate(locations):
        at_location[place].append(index)
    able = {
        name: frozenset(objects[fact[0]] for fact in facts[name] if fact[0] in objects)
        for name in (
            "pickupable",
            "cleanable",
            "heatable",
            "coolable",
            "toggleable",
            "sliceable",
            "isreceptacleobject",
        )
    }
    goal = problem.goal
    targets = frozenset(i for i, kind in enumerate(object_types) if kind == goal.target)
    treatment = TREATMENTS.get(goal.kind)
    if treatment is not None:
        able["treatable"] = able[treatment.able]
    inside: dict[int, list[int]] = defaultdict(list)
    for inner, outer in sorted(facts["inreceptacleobject"]):
        inside[objects[outer]].append(objects[inner])
    return Game(
        problem=problem,
        objects=tuple(names[name] for name in object_ids),
        object_types=object_types,
        receptacles=tuple(names[name] for name in receptacle_ids),
        receptacle_types=receptacle_types,
        locations=locations,
        at_location=tuple(tuple(here) for here in at_location),
        openable=_mask(facts["openable"], receptacles),
        accepts=_accepting(set(facts["cancontain"]), object_types, receptacle_types),
        able=able,
        inside={outer: tuple(inner) for outer, inner in inside.items()},
        targets=targets,
        goals=tuple(i for i, kind in enumerate(receptacle_types) if kind == goal.receptacle),
        lamps=frozenset(o for o in able["toggleable"] if goal.kind == LOOK and object_types[o] == goal.lamp),
        appliances=tuple(
            i for i, kind in enumerate(receptacle_types) if treatment is not None and kind in treatment.places
        ),
        start=_start(facts, objects, receptacles, places),
    )


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """ALFWorld's names: the part before the first ``_bar_`` and a number that falls along the sorted ids."""
    kinds = {}
    for name in sorted(ids):
        head, bar, _ = name.partition("_bar_")
        if bar:
            kinds[name] = head + ("basin" if "basin" in name else "")
    left = Counter(kinds.values())
    names = {}
    for name, kind in kinds.items():
        names[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def _by_predicate(facts: Iterable[Fact], source: str) -> defaultdict[str, list[tuple[str, ...]]]:
    grouped: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for name, *arguments in facts:
        if (len(arguments) != 2) if name in _PAIRS else not arguments:
            fact = " ".join([name, *arguments])
            raise GameFileError(f"{source}: the fact ({fact}) has {len(arguments)} arguments")
        grouped[name].append(tuple(arguments))
    return grouped


def _validate(
    facts: Mapping[str, list[tuple[str, ...]]], receptacles: Mapping[str, int], source: str
) -> None:
    if not receptacles:
        raise GameFileError(f"{source}: the problem places no receptacle")
    if len(facts["receptacleatlocation"]) != len(receptacles):
        raise GameFileError(f"{source}: a receptacle has two locations")
    if len(facts["atlocation"]) != 1:
        raise GameFileError(f"{source}: the agent has {len(facts['atlocation'])} start locations, not one")
    for name in ("objecttype", "receptacletype"):
        if len({fact[0] for fact in facts[name]}) != len(facts[name]):
            raise GameFileError(f"{source}: something has two types in ({name} ...)")
    for thing, place in facts["inreceptacle"]:
        if place not in receptacles:
            raise GameFileError(f"{source}: {thing} is in {place}, which has no location")
    for name in sorted(_named(facts)):
        if "_bar_" not in name:
            raise GameFileError(f"{source}: '{name}' is not an ALFWorld identifier (type_bar_position)")


def _named(facts: Mapping[str, list[tuple[str, ...]]]) -> set[str]:
    pairs = (*facts["inreceptacle"], *facts["inreceptacleobject"])
    shown = {thing for pair in pairs for thing in pair}
    return shown | {fact[0] for name in ("receptacleatlocation", "objecttype") for fact in facts[name]}


def _typed(pairs: list[tuple[str, ...]], ids: list[str]) -> tuple[str, ...]:
    types = {pair[0]: pair[1] for pair in pairs}
    return tuple(types.get(name, "") for name in ids)


def _mask(facts: list[tuple[str, ...]], receptacles: Mapping[str, int]) -> int:
    return sum(1 << receptacles[fact[0]] for fact in set(facts) if fact[0] in receptacles)


def _accepting(
    can_contain: set[tuple[str, ...]], objects: tuple[str, ...], receptacles: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    by_type = {
        kind: tuple(i for i, receptacle in enumerate(receptacles) if (receptacle, kind) in can_contain)
        for kind in set(objects)
    }
    return tuple(by_type[kind] for kind in objects)


def _start(
    facts: Mapping[str, list[tuple[str, ...]]],
    objects: Mapping[str, int],
    receptacles: Mapping[str, int],
    places: Mapping[str, int],
) -> State:
    contents: list[set[int]] = [set() for _ in receptacles]
    for thing, receptacle in facts["inreceptacle"]:
        contents[receptacles[receptacle]].add(objects[thing])
    held = [objects[fact[1]] for fact in facts["holds"] if fact[1] in objects]
    return State(
        location=places[facts["atlocation"][0][1]],
        opened=_mask(facts["opened"], receptacles),
        held=held[0] if held else NOWHERE,
        contents=tuple(tuple(sorted(inner)) for inner in contents),
        properties=sum(
            1 << (index * len(objects) + objects[fact[0]])
            for index, name in enumerate(PROPERTIES)
            for fact in facts[name]
            if fact[0] in objects
        ),
        floor=frozenset((objects[fact[0]], places[fact[1]]) for fact in facts["objectatlocation"]),
        absent=frozenset(),
    )
