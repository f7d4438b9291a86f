"""Observations of the household engine, verbatim as ALFWorld 0.4's grammar produces them (MIT licence)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnpoint.envs.household.game import NOWHERE, PROPERTIES, Game, State

if TYPE_CHECKING:
    from turnpoint.envs.household.engine import Action

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
ROOM = "You are in the middle of a room. Looking quickly around you, you see {}."
FACING = "You are facing the {}. Next to it, you see {}."
NOTHING = "nothing"
UNKNOWN = "Nothing happens."
"""Answer to a command that is not admissible."""
EMPTY_HANDED = "You are not carrying anything."
ON = "On the {}, you see {}."
OPEN = "The {} is open. In it, you see {}."
CLOSED = "The {} is closed."
REMINDER = "Task: {} You hold: {}."

ANSWERS = {
    "go": "You arrive at {place}. {inside}",
    "open": "You open the {place}. {inside}",
    "close": "You close the {place}.",
    "take": "You pick up the {thing} from the {place}.",
    "move": "You move the {thing} to the {place}.",
    "clean": "You clean the {thing} using the {place}.",
    "heat": "You heat the {thing} using the {place}.",
    "cool": "You cool the {thing} using the {place}.",
    "use": "You turn on the {thing}.",
    "inventory": "You are carrying: a {thing}.",
}
"""Answers by verb, where one sentence is enough."""
SLICED = "You sliced the {} with the {}."
HOLDER = "This is a normal {}. In it, you see {}."

# First match wins, as in the grammar; combinations that it lacks fall through to a shorter one.
CONDITIONS = (
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
    (("toggleable", "istoggled"), "This {} is on."),
    (("sliceable", "issliced"), "This is a sliced {}."),
    ((), "There's nothing special about {}."),
)


def listing(names: Sequence[str]) -> str:
    """Names as the grammar joins them: ``a, b, and c``; ``nothing`` if there are none."""
    if not names:
        return NOTHING
    return ", ".join(names[:-1]) + ", and " + names[-1] if len(names) > 1 else names[0]


def introduction(game: Game, *, brief: bool = False) -> str:
    """First observation: what is in the room and the task; ``brief`` is the room alone."""
    room = _look(game, game.start, shown=True)
    return room if brief else f"{WELCOME}\n\n{room}\n\n{game.problem.task}"


def reminder(game: Game, state: State) -> str:
    """One line with the task and what the agent holds, for models that cannot keep them in mind."""
    held = NOTHING if state.held == NOWHERE else game.objects[state.held]
    return REMINDER.format(task_line(game), held)


def task_line(game: Game) -> str:
    """The task without ``Your task is to: ``."""
    return game.problem.task.removeprefix("Your task is to: ")


def describe(game: Game, state: State, action: Action) -> str:
    """Answer to an admissible ``action`` that led to ``state``."""
    verb, thing, place = action
    if verb == "examine":
        return _receptacle(game, state, place) if thing < 0 else _object(game, state, thing)
    if verb == "slice":
        return SLICED.format(game.objects[thing], game.objects[place])
    if verb == "help":
        return game.problem.help
    if verb == "look":
        return _look(game, state, shown=False)
    if verb == "inventory":
        thing = state.held
        if thing == NOWHERE:
            return EMPTY_HANDED
    return ANSWERS[verb].format(
        thing=game.objects[thing] if thing >= 0 else "",
        place=game.receptacles[place] if place >= 0 else "",
        inside=_receptacle(game, state, place) if verb in ("go", "open") else "",
    )


def _receptacle(game: Game, state: State, place: int) -> str:
    name = game.receptacles[place]
    if not game.openable >> place & 1:
        pattern = ON
    elif state.opened >> place & 1:
        pattern = OPEN
    else:
        return CLOSED.format(name)
    return pattern.format(name, listing(["a " + game.objects[thing] for thing in state.contents[place]]))


def _look(game: Game, state: State, *, shown: bool) -> str:
    here = game.at_location[state.location]
    if not here:
        # The original lists the room only in the first observation; a later look sees nothing.
        return ROOM.format(listing(["a " + name for name in game.receptacles] if shown else []))
    around = [
        "a " + game.objects[thing]
        for thing, location in sorted(state.floor)
        if location == state.location
        for r in here
        if (thing, r) in state.absent
    ]
    return FACING.format(listing([game.receptacles[r] for r in here]), listing(around))


def _object(game: Game, state: State, thing: int) -> str:
    name = game.objects[thing]
    if thing in game.able["isreceptacleobject"]:
        return HOLDER.format(name, listing(["a " + game.objects[i] for i in game.inside.get(thing, ())]))
    has = {prop for prop in PROPERTIES if state.properties & game.bit(prop, thing)}
    has |= {ability for ability in ("toggleable", "sliceable") if thing in game.able[ability]}
    return next(text.format(name) for wanted, text in CONDITIONS if has.issuperset(wanted))
