"""Plays a household game: admissible commands, state changes and won, as TextWorld and ALFWorld 0.4 do.

Quirks of the original are kept on purpose: all receptacles at the agent's location leave the ``go to`` list,
``examine OBJECT`` works for the held object only, ``use`` always turns on, ``help`` is a command.
"""

from __future__ import annotations

from typing import NamedTuple

from turnpoint.envs.household.game import NOWHERE, Game, State
from turnpoint.envs.household.goals import LOOK, TREATMENTS, TWO
from turnpoint.envs.household.text import UNKNOWN, describe

_VIEWS = 4096


class Action(NamedTuple):
    """A parsed command: verb, object and receptacle (or second object) index; -1 where there is none."""

    verb: str
    thing: int = -1
    place: int = -1


class Engine:
    """Rules of one game. Holds no play state, only a bounded cache, so one engine serves many episodes."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._views: dict[object, dict[str, Action]] = {}
        self._go = self._go_commands()
        self._masks = tuple(sum(1 << r for r in here) for here in game.at_location)
        knives = ("knifetype", "butterknifetype")
        self._knives = frozenset(i for i, kind in enumerate(game.object_types) if kind in knives)
        self._properties = {
            kind: tuple(game.bit(how.done, thing) for thing in range(len(game.objects)))
            for kind, how in TREATMENTS.items()
        }

    def commands(self, state: State) -> dict[str, Action]:
        """Admissible commands in alphabetical order with what they do; do not change the dict."""
        game = self.game
        here = game.at_location[state.location]
        key = (
            state.location,
            state.opened & self._masks[state.location],
            state.held,
            tuple([state.contents[r] for r in here]),
            state.floor if state.held in self._knives else None,
        )
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            view = self._views[key] = dict(sorted((self._go[state.location] | self._local(state)).items()))
        return view

    def step(self, state: State, command: str) -> tuple[State, str, bool]:
        """State after ``command``, the answer to it, and whether it was admissible."""
        action = self.commands(state).get(command.strip())
        if action is None:
            return state, UNKNOWN, False
        after = self.apply(state, action)
        return after, describe(self.game, after, action), True

    def apply(self, state: State, action: Action) -> State:
        """State after an admissible action."""
        location, opened, held, contents, properties, floor, absent = state
        verb, thing, place = action
        if verb == "go":
            location = self.game.locations[place]
        elif verb == "open":
            opened |= 1 << place
        elif verb == "close":
            opened &= ~(1 << place)
        elif verb == "take":
            left = tuple([other for other in contents[place] if other != thing])
            contents = (*contents[:place], left, *contents[place + 1 :])
            absent, floor, held = absent | {(thing, place)}, floor - {(thing, location)}, thing
        elif verb == "move":
            more = tuple(sorted({*contents[place], thing}))
            contents = (*contents[:place], more, *contents[place + 1 :])
            absent, floor, held = absent - {(thing, place)}, floor | {(thing, location)}, NOWHERE
        elif verb in _CHANGES:
            gained, lost = _CHANGES[verb]
            properties |= self.game.bit(gained, thing)
            if lost is not None:
                properties &= ~self.game.bit(lost, thing)
        else:
            return state
        return State(location, opened, held, contents, properties, floor, absent)

    def won(self, state: State) -> bool:
        """Whether the goal holds."""
        game = self.game
        kind = game.goal.kind
        if kind == LOOK:
            return state.held in game.targets and self._lit(state)
        contents = state.contents
        if kind == TWO:
            return any(len(game.targets.intersection(contents[r])) >= 2 for r in game.goals)
        if game.treatment is None:
            return any(not game.targets.isdisjoint(contents[r]) for r in game.goals)
        bits = self._properties[kind]
        wanted = game.targets & game.able["treatable"]
        return any(
            state.properties & bits[thing] for r in game.goals for thing in contents[r] if thing in wanted
        )

    def _lit(self, state: State) -> bool:
        game = self.game
        return any(
            state.properties & game.bit("istoggled", lamp)
            for r in game.at_location[state.location]
            for lamp in game.lamps.intersection(state.contents[r])
        )

    def _go_commands(self) -> tuple[dict[str, Action], ...]:
        game = self.game
        always = {name: Action(name) for name in ("help", "inventory", "look")}
        return tuple(
            always
            | {
                f"go to {name}": Action("go", -1, r)
                for r, name in enumerate(game.receptacles)
                if game.locations[r] != location
            }
            for location in range(len(game.at_location))
        )

    def _local(self, state: State) -> dict[str, Action]:
        game = self.game
        found: dict[str, Action] = {}
        for r in game.at_location[state.location]:
            name = game.receptacles[r]
            found[f"examine {name}"] = Action("examine", -1, r)
            reachable = True
            if game.openable >> r & 1:
                reachable = bool(state.opened >> r & 1)
                verb = "close" if reachable else "open"
                found[f"{verb} {name}"] = Action(verb, -1, r)
            for thing in state.contents[r]:
                if reachable and state.held == NOWHERE and thing in game.able["pickupable"]:
                    found[f"take {game.objects[thing]} from {name}"] = Action("take", thing, r)
                if thing in game.able["toggleable"]:
                    found[f"use {game.objects[thing]}"] = Action("use", thing)
            if state.held != NOWHERE:
                self._held_here(state.held, r, reachable, found)
        if state.held != NOWHERE:
            found[f"examine {game.objects[state.held]}"] = Action("examine", state.held)
        if state.held in self._knives:
            self._slices(state, found)
        return found

    def _held_here(self, held: int, r: int, reachable: bool, found: dict[str, Action]) -> None:
        game = self.game
        name, thing = game.receptacles[r], game.objects[held]
        if reachable and r in game.accepts[held]:
            found[f"move {thing} to {name}"] = Action("move", held, r)
        for how in TREATMENTS.values():
            if game.receptacle_types[r] in how.places and held in game.able[how.able]:
                found[f"{how.verb} {thing} with {name}"] = Action(how.verb, held, r)

    def _slices(self, state: State, found: dict[str, Action]) -> None:
        game = self.game
        for thing, location in state.floor:
            if location == state.location and thing in game.able["sliceable"]:
                command = f"slice {game.objects[thing]} with {game.objects[state.held]}"
                found[command] = Action("slice", thing, state.held)


_CHANGES = {how.verb: (how.done, how.undoes) for how in TREATMENTS.values()} | {
    "use": ("istoggled", None),
    "slice": ("issliced", None),
}
