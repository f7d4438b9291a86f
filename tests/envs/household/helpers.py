"""Small games, random play and an oracle by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game, State
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.goals import Goal
from turnpoint.envs.household.index import index_game
from turnpoint.envs.household.problem import Problem
from turnpoint.envs.household.settings import GeneratorSettings

SMALL = GeneratorSettings(receptacles=(3, 5), objects=(3, 5), shared_locations=0.3, temptations=0.4, traps=2)
_SMALL = Generator(SMALL)
_IDLE = ("look", "inventory", "help", "examine")


def small_game(seed: int) -> Game:
    """A generated game with few places, shared locations and, often, dead ends."""
    return _SMALL.game(seed)


def random_states(engine: Engine, seed: int, count: int, start: State | None = None) -> Iterator[State]:
    """States along one random walk that prefers handling objects to walking."""
    rng = random.Random(f"walk/{seed}")
    state = start if start is not None else engine.game.start
    for _ in range(count):
        commands = list(engine.commands(state))
        handling = [c for c in commands if not c.startswith(("go", *_IDLE))]
        pool = handling if handling and rng.random() < 0.6 else commands
        state = engine.step(state, rng.choice(pool))[0]
        yield state


def brute_force(engine: Engine, state: State, deepest: int) -> int | None:
    """Distance by breadth-first search over every command; -1 if it is larger than ``deepest``, None if none."""
    if engine.won(state):
        return 0
    seen, frontier = {state[:5]}, [state]
    for depth in range(1, deepest + 1):
        following = []
        for here in frontier:
            for command, action in engine.commands(here).items():
                if command.startswith(_IDLE):
                    continue
                after = engine.apply(here, action)
                if after[:5] in seen:
                    continue
                if engine.won(after):
                    return depth
                seen.add(after[:5])
                following.append(after)
        if not following:
            return None
        frontier = following
    return -1


def kitchen(*extra: tuple[str, ...], goal: Goal | None = None, without: str = "") -> Game:
    """A hand-made room: two drawers share a place; a mug with a pencil, an apple, a knife, a lamp, a statue."""
    places = {"drawer_bar_1": 0, "drawer_bar_2": 0, "countertop_bar_1": 1, "fridge_bar_1": 2, "desk_bar_1": 3}
    places |= {"sink_bar_1_bar_sinkbasin": 4, "microwave_bar_1": 5}
    facts: set[tuple[str, ...]] = {("atlocation", "agent1", "loc_bar_9")}
    for name, place in places.items():
        kind = "sinkbasin" if "basin" in name else name.split("_")[0]
        facts |= {("receptacletype", name, kind + "type"), ("receptacleatlocation", name, f"loc_bar_{place}")}
    for name in ("drawer_bar_1", "drawer_bar_2", "fridge_bar_1", "microwave_bar_1"):
        facts.add(("openable", name))
    things = {"mug_bar_1": "countertop_bar_1", "mug_bar_2": "drawer_bar_1", "apple_bar_1": "countertop_bar_1"}
    things |= {
        "knife_bar_1": "countertop_bar_1",
        "desklamp_bar_1": "desk_bar_1",
        "statue_bar_1": "desk_bar_1",
    }
    for name, where in things.items():
        kind = name.split("_")[0]
        facts |= {("objecttype", name, kind + "type"), ("inreceptacle", name, where)}
        facts.add(("objectatlocation", name, f"loc_bar_{places[where]}"))
        facts.add(("toggleable" if kind == "desklamp" else "pickupable", name))
        if kind in ("mug", "apple", "knife"):
            facts |= {
                ("cancontain", place + "type", kind + "type") for place in ("countertop", "drawer", "fridge")
            }
            facts.add(("cleanable", name))
        if kind in ("mug", "apple"):
            facts |= {("heatable", name), ("coolable", name)}
    facts |= {
        ("objecttype", "pencil_bar_1", "penciltype"),
        ("inreceptacleobject", "pencil_bar_1", "mug_bar_1"),
    }
    facts |= {("isreceptacleobject", "mug_bar_1"), ("sliceable", "apple_bar_1"), *extra}
    kept = frozenset(fact for fact in facts if not without or without not in fact)
    wanted = goal or Goal("pick_and_place_simple", "appletype", "fridgetype")
    return index_game(Problem("Your task is to: put some apple on fridge.", wanted, kept))
