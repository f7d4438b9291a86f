"""Observations of the household engine, verbatim as ALFWorld 0.4's grammar produces them (MIT licence)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnpoint.envs.household.game import NOWHERE, PROPERTIES, Game, State

if TYPE_CHECKING:
    from turnpoint.envs.household.engine import Action

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"


def listing(names: Sequence[str]) -> str:
    """Names as the grammar joins them: ``a, b, and c``; ``nothing`` if there are none."""
    *first, last = names or ["nothing"]
    return ", ".join(first) + ", and " + last if first else last


def introduction(game: Game) -> str:
    """First observation: what is in the room and the task."""
    return f"{WELCOME}\n\n{_look(game, game.start, shown=True)}\n\n{game.problem.task}"


def describe(game: Game, state: State, action: Action) -> str:
    """Answer to an admissible ``action`` that led to ``state``."""
    verb, thing, place = action
    if verb == "go":
        return f"You arrive at {game.receptacles[place]}. {_receptacle(game, state, place)}"
    if verb == "open":
        return f"You open the {game.receptacles[place]}. {_receptacle(game, state, place)}"
    if verb == "close":
        return f"You close the {game.receptacles[place]}."
    if verb == "take":
        return f"You pick up the {game.objects[thing]} from the {game.receptacles[place]}."
    if verb == "move":
        return f"You move the {game.objects[thing]} to the {game.receptacles[place]}."
    if verb == "use":
        return f"You turn on the {game.objects[thing]}."
    if verb == "slice":
        return f"You sliced the {game.objects[thing]} with the {game.objects[place]}."
    if verb == "help":
        return game.problem.help
    if verb == "look":
        return _look(game, state, shown=False)
    if verb == "inventory":
        return f"You are carrying: a {game.objects[state.held]}." if state.held != NOWHERE else _EMPTY_HANDED
    if verb == "examine":
        return _receptacle(game, state, place) if thing < 0 else _object(game, state, thing)
    return f"You {verb} the {game.objects[thing]} using the {game.receptacles[place]}."


_EMPTY_HANDED = "You are not carrying anything."


def _receptacle(game: Game, state: State, place: int) -> str:
    name = game.receptacles[place]
    if not game.openable >> place & 1:
        start = f"On the {name}"
    elif state.opened >> place & 1:
        start = f"The {name} is open. In it"
    else:
        return f"The {name} is closed."
    return f"{start}, you see {listing(['a ' + game.objects[thing] for thing in state.contents[place]])}."


def _look(game: Game, state: State, *, shown: bool) -> str:
    here = game.at_location[state.location]
    if not here:
        # The original lists the room only in the first observation; a later look sees nothing.
        room = listing(["a " + name for name in game.receptacles] if shown else [])
        return f"You are in the middle of a room. Looking quickly around you, you see {room}."
    around = [
        "a " + game.objects[thing]
        for thing, location in sorted(state.floor)
        if location == state.location
        for r in here
        if (thing, r) in state.absent
    ]
    facing = listing([game.receptacles[r] for r in here])
    return f"You are facing the {facing}. Next to it, you see {listing(around)}."


# First match wins, as in the grammar; combinations that it lacks fall through to a shorter one.
_CONDITIONS = (
    (("isclean", "ishot", "issliced"), "This is a hot and clean sliced {}."),
    (("isclean", "iscool", "issliced"), "This is a cool and clean sliced {}."),
    (("isclean", "issliced"), "This is a clean sliced {}."),
    (("ishot", "issliced"), "This is a hot sliced {}."),
    (("iscool", "issliced"), "This is a cool sliced {}."),
    (("isclean", "ishot"), "This is a hot and clean {}."),
    (("isclean", "iscool"), "This is a cool and clean {}."),
    (("ishot",), "This is a hot {}."),
    (("isclean",), "This is a clean {}."),
    (("iscool",), "This is a cold {}."),
)


def _object(game: Game, state: State, thing: int) -> str:
    name = game.objects[thing]
    if thing in game.able["isreceptacleobject"]:
        inside = listing(["a " + game.objects[inner] for inner in game.inside.get(thing, ())])
        return f"This is a normal {name}. In it, you see {inside}."
    has = {prop for prop in PROPERTIES if state.properties & game.bit(prop, thing)}
    for wanted, text in _CONDITIONS:
        if has.issuperset(wanted):
            return text.format(name)
    if thing in game.able["toggleable"] and "istoggled" in has:
        return f"This {name} is on."
    if thing in game.able["sliceable"] and "issliced" in has:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."
