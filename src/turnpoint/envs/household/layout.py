"""Rooms of generated games: which receptacles stand where."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnpoint.envs.household.goals import CLEAN, COOL, HEAT, LOOK
from turnpoint.envs.household.statistics import ROOMS, Statistics

LAMP = "desklamp"
APPLIANCES = {CLEAN: "sinkbasin", HEAT: "microwave", COOL: "fridge"}
_TASK_ROOMS = {
    CLEAN: ("kitchen", "bathroom"),
    HEAT: ("kitchen",),
    COOL: ("kitchen",),
    LOOK: ("living room", "bedroom"),
}


@dataclass(frozen=True, slots=True)
class Spot:
    """One receptacle of a generated room."""

    kind: str
    openable: bool
    location: int
    """Equal for receptacles that are reached together."""


def task_rooms(kind: str) -> tuple[str, ...]:
    """Rooms in which real games have this task type."""
    return _TASK_ROOMS.get(kind, ROOMS)


def lamp_stands(statistics: Statistics) -> tuple[str, ...]:
    """Receptacle types on which lamps stand, most common first."""
    row = statistics.placements[LAMP]
    return tuple(sorted(row, key=lambda name: (-row[name], name)))


def draw_layout(
    rng: random.Random,
    statistics: Statistics,
    rooms: Sequence[str],
    size: tuple[int, int],
    kinds: Iterable[str],
    shared: float,
) -> tuple[Spot, ...]:
    """Receptacles for games of task types ``kinds`` in ``rooms`` (several rooms are mixed into one).

    Types are drawn by the square root of their frequency, so that small rooms keep some variety, and never
    more of one type than any real game has. ``shared`` is the share of spots that join another's location.
    """
    needed = [APPLIANCES[kind] for kind in kinds if kind in APPLIANCES]
    frequency: Counter[str] = Counter()
    for room in rooms:
        frequency.update(statistics.receptacles[room])
    if LOOK in kinds:
        stands = [name for name in lamp_stands(statistics) if name in frequency] or list(
            lamp_stands(statistics)
        )
        needed.append(stands[rng.randrange(min(3, len(stands)))])
    chosen = list(dict.fromkeys(needed))
    for _ in range(rng.randint(*size) - len(chosen)):
        left = {
            name: count**0.5
            for name, count in frequency.items()
            if chosen.count(name) < statistics.most[name]
        }
        chosen.append(rng.choices(list(left), list(left.values()))[0])
    spots = []
    for number, name in enumerate(sorted(chosen)):
        joins = number > 0 and rng.random() < shared
        location = rng.randrange(number) if joins else number
        spots.append(Spot(name, rng.random() < statistics.openable[name], location))
    return tuple(spots)
