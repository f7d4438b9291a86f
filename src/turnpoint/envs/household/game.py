"""A household game in play: immutable tables of what never changes, and the state that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from turnpoint.envs.household.goals import TREATMENTS, Goal, Treatment
from turnpoint.envs.household.problem import Problem

PROPERTIES = ("isclean", "ishot", "iscool", "istoggled", "issliced")
"""Order of property bits in ``State.properties``."""
NOWHERE = -1
"""No object (empty hands)."""

Pairs = frozenset[tuple[int, int]]


class State(NamedTuple):
    """Everything that changes during play. Immutable and hashable, so a fork is a reference.

    Objects, receptacles and locations are indices into the game's tables.
    """

    location: int
    opened: int
    """Bit r is set if receptacle r is open."""
    held: int
    """Object in the agent's hand, or ``NOWHERE``."""
    contents: tuple[tuple[int, ...], ...]
    """Objects in each receptacle, ascending. An object may be listed in two: released games have such."""
    properties: int
    """Bit ``p * objects + o`` is set if object o has property ``PROPERTIES[p]``."""
    floor: Pairs
    """(object, location) pairs that slicing and ``look`` go by."""
    absent: Pairs
    """(object, receptacle) pairs that were removed and not put back: what ``look`` lists."""


@dataclass(frozen=True)
class Game:
    """Immutable tables of one game; two games are equal if their problems are."""

    problem: Problem
    objects: tuple[str, ...] = field(compare=False, repr=False)
    """Display names by object index, for example ``mug 2``; index order is the order of lists in texts."""
    object_types: tuple[str, ...] = field(compare=False, repr=False)
    receptacles: tuple[str, ...] = field(compare=False, repr=False)
    receptacle_types: tuple[str, ...] = field(compare=False, repr=False)
    locations: tuple[int, ...] = field(compare=False, repr=False)
    """Location of each receptacle."""
    at_location: tuple[tuple[int, ...], ...] = field(compare=False, repr=False)
    """Receptacles of each location."""
    openable: int = field(compare=False, repr=False)
    """Bit mask over receptacles."""
    accepts: tuple[tuple[int, ...], ...] = field(compare=False, repr=False)
    """Receptacles that each object can be put into."""
    able: Mapping[str, frozenset[int]] = field(compare=False, repr=False)
    """Objects by constant predicate: ``pickupable``, ``cleanable``, ..., ``isreceptacleobject``."""
    inside: Mapping[int, tuple[int, ...]] = field(compare=False, repr=False)
    """Objects inside objects (a pencil in a mug); they only show in texts."""
    targets: frozenset[int] = field(compare=False, repr=False)
    """Objects of the goal's target type."""
    goals: tuple[int, ...] = field(compare=False, repr=False)
    """Receptacles of the goal's type."""
    lamps: frozenset[int] = field(compare=False, repr=False)
    """Lamps that can be used for ``look_at_obj_in_light``."""
    appliances: tuple[int, ...] = field(compare=False, repr=False)
    """Receptacles where the treatment that the goal asks for is done."""
    start: State = field(compare=False, repr=False)

    @property
    def goal(self) -> Goal:
        """What has to hold at the end."""
        return self.problem.goal

    @property
    def treatment(self) -> Treatment | None:
        """What has to be done to the object on the way, if anything."""
        return TREATMENTS.get(self.problem.goal.kind)

    def bit(self, name: str, thing: int) -> int:
        """Mask of one property of one object in ``State.properties``."""
        return 1 << (PROPERTIES.index(name) * len(self.objects) + thing)
