"""What real ALFWorld games look like, as counts: embedded for the generator and for sensible exploration.

``statistics.json`` holds aggregated counts over the 3,553 training games of ALFWorld (MIT licence), made with
``python -m turnpoint.envs.household.statistics FOLDER_OF_GAMES OUTPUT``. Types are named without their PDDL
suffix: ``mug``, ``sinkbasin``.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from turnpoint.envs.household.game import Game
from turnpoint.envs.household.index import load_game

ROOMS = ("kitchen", "living room", "bedroom", "bathroom")
ABILITIES = ("cleanable", "heatable", "coolable", "sliceable", "isreceptacleobject")
_MARKS = {"kitchen": "fridge", "bathroom": "toilet", "bedroom": "bed"}

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Statistics:
    """Counts over real games; every table is keyed by type names."""

    games: Counts
    """Games per room."""
    receptacles: Mapping[str, Counts]
    """Room -> receptacle type -> how many over all games of the room."""
    most: Counts
    """Receptacle type -> most in one game."""
    objects: Mapping[str, Counts]
    """Room -> object type -> how many that can be picked up."""
    placements: Mapping[str, Counts]
    """Object type -> receptacle type -> how often it starts there."""
    can_contain: Mapping[str, tuple[str, ...]]
    """Object type -> receptacle types that accept it."""
    able: Mapping[str, frozenset[str]]
    """Ability -> object types that have it."""
    openable: Mapping[str, float]
    """Receptacle type -> share that can be opened."""
    tasks: Mapping[str, Mapping[tuple[str, str], int]]
    """Task type -> (target type, goal receptacle type or lamp type) -> games."""

    def prior(self, thing: str, receptacle: str) -> float:
        """Share of objects of type ``thing`` that start in receptacles of this type."""
        row = self.placements.get(thing, {})
        return row.get(receptacle, 0) / max(1, sum(row.values()))


@functools.cache
def load_statistics() -> Statistics:
    """The embedded statistics."""
    text = resources.files(__package__).joinpath("statistics.json").read_text(encoding="utf-8")
    return _from_json(json.loads(text))


def _from_json(data: dict[str, Any]) -> Statistics:
    return Statistics(
        games=data["games"],
        receptacles=data["receptacles"],
        most=data["most"],
        objects=data["objects"],
        placements=data["placements"],
        can_contain={name: tuple(row) for name, row in data["can_contain"].items()},
        able={name: frozenset(row) for name, row in data["able"].items()},
        openable=data["openable"],
        tasks={
            kind: {(pair.split()[0], pair.split()[1]): count for pair, count in row.items()}
            for kind, row in data["tasks"].items()
        },
    )


def room_of(game: Game) -> str:
    """Which kind of room a game shows, by its furniture."""
    types = {bare(kind) for kind in game.receptacle_types}
    return next((room for room, mark in _MARKS.items() if mark in types), "living room")


def bare(pddl_type: str) -> str:
    """``mugtype`` -> ``mug``."""
    return pddl_type.removesuffix("type")


def count_games(games: Iterable[Game]) -> dict[str, Any]:
    """Aggregated counts over games, as ``statistics.json`` holds them."""
    rooms: Counter[str] = Counter()
    most: Counter[str] = Counter()
    openable: defaultdict[str, list[int]] = defaultdict(list)
    tables: dict[str, defaultdict[str, Counter[str]]] = {
        name: defaultdict(Counter) for name in ("receptacles", "objects", "placements", "tasks")
    }
    can_contain: defaultdict[str, set[str]] = defaultdict(set)
    able: defaultdict[str, set[str]] = defaultdict(set)
    for game in games:
        room = room_of(game)
        rooms[room] += 1
        furniture = Counter(map(bare, game.receptacle_types))
        tables["receptacles"][room].update(furniture)
        most |= furniture
        for r, kind in enumerate(game.receptacle_types):
            openable[bare(kind)].append(game.openable >> r & 1)
            for thing in game.start.contents[r]:
                name = bare(game.object_types[thing])
                if thing in game.able["pickupable"]:
                    tables["objects"][room][name] += 1
                if thing in game.able["pickupable"] or thing in game.able["toggleable"]:
                    tables["placements"][name][bare(kind)] += 1
        for name, receptacle, thing_type in (f for f in game.problem.facts if f[0] == "cancontain"):
            del name
            can_contain[bare(thing_type)].add(bare(receptacle))
        for ability in ABILITIES:
            able[ability] |= {bare(game.object_types[thing]) for thing in game.able[ability]}
        goal = game.goal
        tables["tasks"][goal.kind][f"{bare(goal.target)} {bare(goal.receptacle or goal.lamp or '')}"] += 1
    plain = {
        name: {key: _sorted(row) for key, row in sorted(table.items())} for name, table in tables.items()
    }
    return {
        "games": _sorted(rooms),
        "most": _sorted(most),
        **plain,
        "can_contain": {name: sorted(row) for name, row in sorted(can_contain.items())},
        "able": {name: sorted(row) for name, row in sorted(able.items())},
        "openable": {name: round(sum(row) / len(row), 3) for name, row in sorted(openable.items())},
    }


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def main(folder: str, output: str) -> None:
    """Count the games under ``folder`` and write the table."""
    paths = sorted(Path(folder).rglob("game.tw-pddl"))
    table = count_games(load_game(path) for path in paths)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    Path(output).write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
