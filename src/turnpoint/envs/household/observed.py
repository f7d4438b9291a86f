"""The oracle for an agent that knows only what its episode has shown.

A teacher that knows where everything is teaches what the student cannot know. Here the hidden part of the world
is replaced by a guess: a needed object that has not been seen lies in the unexplored receptacle with the best
ratio of probability (how often real games have such an object in such a receptacle) to the commands it takes to
look there. In the guessed world the exact oracle plans; other sensible places to look are equally good.
"""

from __future__ import annotations

from turnpoint.envs.household.engine import Action
from turnpoint.envs.household.game import NOWHERE, State
from turnpoint.envs.household.goals import LOOK, SIMPLE, TWO
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.statistics import bare, load_statistics

SENSIBLE = 0.1
"""A place is sensible to explore if its probability is at least this share of the likeliest place's."""


class ObservedOracle:
    """Best commands given the receptacles whose contents have been seen (a bit mask, bit r = receptacle r)."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.engine = oracle.engine
        self.game = oracle.game
        self._statistics = load_statistics()

    def see(self, seen: int, state: State, action: Action | None = None) -> int:
        """``seen`` with what an agent in ``state`` is shown, by the answer to ``action`` and by its commands.

        Contents show when an open receptacle is arrived at, opened or examined. With empty hands the admissible
        ``take`` commands show everything within reach.
        """
        game = self.game
        shown = 0
        if action is not None and action.place >= 0 and action.verb in ("go", "open", "examine"):
            shown |= 1 << action.place
        if state.held == NOWHERE:
            shown |= sum(1 << r for r in game.at_location[state.location])
        return seen | shown & (state.opened | ~game.openable)

    def best_actions(self, state: State, seen: int) -> list[str]:
        """Commands that are best for what is known, the best guess first; empty if solved or hopeless."""
        oracle = self.oracle
        if self.engine.won(state):
            return []
        known = self._known(state, seen)
        best = oracle.best_actions(known)
        if best:
            return best
        guess, looked_for = self._guess(known, state, seen)
        possible = self.engine.commands(state)
        best = [command for command in oracle.best_actions(guess) if command in possible]
        return self._with_alternatives(best, state, seen, looked_for)

    def _known(self, state: State, seen: int) -> State:
        """The world without what has not been seen. Lamps at hand show by their ``use`` commands."""
        lamps = self.game.able["toggleable"]
        here = self.game.at_location[state.location]
        contents = []
        for r, inner in enumerate(state.contents):
            if not seen >> r & 1:
                inner = tuple(thing for thing in inner if thing in lamps) if r in here else ()
            contents.append(inner)
        return state._replace(contents=tuple(contents))

    def _guess(self, known: State, state: State, seen: int) -> tuple[State, list[list[int]]]:
        """A world in which the missing objects lie at the best guesses, and the places to look for each."""
        guess = known
        looked_for: list[list[int]] = []
        for missing, thing_type in self._missing(known):
            ranked = self._ranked(state, seen, thing_type)
            for i, r in enumerate(ranked):
                contents = list(guess.contents)
                contents[r] = tuple(sorted({*contents[r], missing}))
                world = guess._replace(contents=tuple(contents))
                if not self.engine.won(world):  # the episode would be over
                    guess = world
                    looked_for.append(ranked[i:])
                    break
        return guess, looked_for

    def _missing(self, known: State) -> list[tuple[int, str]]:
        """Objects (stand-ins of the right type) that a solution needs and that have not been seen."""
        game = self.game
        shown = {thing for inner in known.contents for thing in inner} | {known.held}
        unseen = sorted(game.targets - shown)
        needed = (2 if game.goal.kind == TWO else 1) - len(game.targets & shown)
        missing = [(thing, game.goal.target) for thing in unseen[: max(0, needed)]]
        if game.goal.kind == LOOK and not game.lamps & shown:
            missing += [(lamp, game.goal.lamp or "") for lamp in sorted(game.lamps)[:1]]
        return missing

    def _ranked(self, state: State, seen: int, thing_type: str) -> list[int]:
        """Sensible unexplored receptacles, the best ratio of probability to effort first."""
        game = self.game
        unexplored = [r for r in range(len(game.receptacles)) if not seen >> r & 1]
        unlikely = self._unlikely(state, thing_type)
        unexplored = [r for r in unexplored if r not in unlikely] or unexplored
        kinds = {r: bare(game.receptacle_types[r]) for r in unexplored}
        same = {kind: game.receptacle_types.count(kind + "type") for kind in set(kinds.values())}
        chance = {r: self._statistics.prior(bare(thing_type), kinds[r]) / same[kinds[r]] for r in unexplored}
        top = max(chance.values(), default=0.0)
        sensible = [r for r in unexplored if chance[r] >= SENSIBLE * top]
        return sorted(sensible, key=lambda r: (-chance[r] / self._effort(state, r), r))

    def _unlikely(self, state: State, thing_type: str) -> tuple[int, ...]:
        """Receptacles that cannot hold what is looked for, or where it would hardly have to be looked for."""
        game = self.game
        if thing_type == game.goal.lamp:
            return game.at_location[state.location]
        return game.goals if game.goal.kind in (SIMPLE, TWO) else ()

    def _effort(self, state: State, r: int) -> float:
        """Commands to look into a receptacle; whether a distant one has to be opened can only be expected."""
        game = self.game
        if game.locations[r] == state.location:
            return 1.0
        return 1.0 + self._statistics.openable.get(bare(game.receptacle_types[r]), 0.0)

    def _with_alternatives(
        self, best: list[str], state: State, seen: int, looked_for: list[list[int]]
    ) -> list[str]:
        """``best`` and, if it goes to look somewhere, the other sensible places to look, likeliest first."""
        commands = self.engine.commands(state)
        ways = {command: self._explores(commands[command], seen) for command in best}
        first = next(
            (r for r in (ranked[0] for ranked in looked_for) if any(r in way for way in ways.values())), None
        )
        if first is None:
            return best
        best = sorted(best, key=lambda command: first not in ways[command])
        order = [r for ranked in looked_for for r in ranked]
        rank = {r: order.index(r) for r in order}
        others = [
            (min(rank[r] for r in places), command)
            for command, action in commands.items()
            if command not in best and (places := self._explores(action, seen) & rank.keys())
        ]
        return best + [command for _, command in sorted(others)]

    def _explores(self, action: Action, seen: int) -> set[int]:
        """Unseen receptacles that an action leads to or opens."""
        game = self.game
        if action.verb == "open":
            places: tuple[int, ...] = (action.place,)
        elif action.verb == "go":
            places = game.at_location[game.locations[action.place]]
        else:
            return set()
        return {r for r in places if not seen >> r & 1}
