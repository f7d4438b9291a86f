"""Tempting games: objects that look useful and spoil the episode when they are picked up.

An object that no receptacle of the room accepts can never be put down again, so taking it is a true dead end;
released games have such objects too. A look-alike that does fit somewhere costs the turns to put it back.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from turnpoint.envs.household.statistics import ABILITIES, Statistics


def likeness(statistics: Statistics, one: str, other: str) -> float:
    """How alike two object types are, 0 to 1: same places (cosine) and same abilities."""
    a, b = statistics.placements.get(one, {}), statistics.placements.get(other, {})
    norm = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    places = sum(count * b.get(name, 0) for name, count in a.items()) / norm if norm else 0.0
    same = sum((one in statistics.able[name]) == (other in statistics.able[name]) for name in ABILITIES)
    return places * same / len(ABILITIES)


def draw_look_alikes(
    rng: random.Random, statistics: Statistics, target: str, types: Sequence[str], count: int
) -> list[str]:
    """Up to ``count`` different types, the ones most like ``target`` preferred."""
    left = {name: 0.02 + likeness(statistics, target, name) ** 2 for name in types if name != target}
    drawn: list[str] = []
    while left and len(drawn) < count:
        name = rng.choices(list(left), list(left.values()))[0]
        del left[name]
        drawn.append(name)
    return drawn


def is_tempting(seed: int, stream: str, share: float) -> bool:
    """Whether the game of ``seed`` is one of the tempting ones."""
    return random.Random(f"{stream}/temptation/{seed}").random() < share
