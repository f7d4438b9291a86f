"""Exact oracle: the least number of commands that still wins, and every command of a shortest way.

Every two places are one ``go to`` apart, so a shortest solution is a short list of *stops*: put down what is
in the way, fetch, treat, deliver. It costs one command per deed, one per receptacle that has to be opened and
one per change of location between stops. Minimising over the stops is a breadth-first search from which every
state that cannot matter is cut; it takes microseconds and equals the search over all commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import NOWHERE, State
from turnpoint.envs.household.goals import LOOK, TWO

IMPOSSIBLE = 1 << 20
"""Larger than any distance; sums of it stay recognisable."""
_CACHE = 20_000

Start = tuple[int, int, int]
"""Cost so far, location, opened receptacles: empty-handed from here on."""
Source = tuple[int, int]
"""A target object and a receptacle it can be taken from."""


class Oracle:
    """Distances and best commands of one game, remembered in a bounded cache."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.game = engine.game
        self._known: dict[tuple[object, ...], int] = {}

    def distance(self, state: State) -> int | None:
        """L(s): number of commands of a shortest way to win; None if there is none (a dead end)."""
        found = self._cost(state)
        return None if found >= IMPOSSIBLE else found

    def best_actions(self, state: State) -> list[str]:
        """Every admissible command that lowers the distance by one, in alphabetical order."""
        cost = self._cost(state)
        if cost == 0 or cost >= IMPOSSIBLE:
            return []
        locations = self._locations_that_matter(state)
        verbs = {"open", "take", "move", "use"}
        if self.game.treatment is not None:
            verbs.add(self.game.treatment.verb)
        best = []
        for command, action in self.engine.commands(state).items():
            if action.verb == "go":
                if self.game.locations[action.place] not in locations:
                    continue
            elif action.verb not in verbs or (
                action.verb == "take" and action.thing not in self.game.targets
            ):
                continue
            if self._cost(self.engine.apply(state, action)) == cost - 1:
                best.append(command)
        return best

    def plan(self, state: State) -> list[str] | None:
        """One shortest way to win; None from a dead end."""
        if self.distance(state) is None:
            return None
        commands = []
        while not self.engine.won(state):
            commands.append(self.best_actions(state)[0])
            state = self.engine.step(state, commands[-1])[0]
        return commands

    def _cost(self, state: State) -> int:
        key = state[:5]
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHE:
                self._known.clear()
            found = self._known[key] = 0 if self.engine.won(state) else self._search(state)
        return found

    def _search(self, state: State) -> int:
        kind = self.game.goal.kind
        if kind == TWO:
            return self._two(state)
        return self._look(state) if kind == LOOK else self._place(state)

    # The three families of tasks

    def _place(self, state: State) -> int:
        """One object, treated if the task asks for it, into one goal receptacle."""
        sources = self._sources(state)
        remembered: dict[tuple[int, int], int] = {}
        best = IMPOSSIBLE
        if state.held in self.game.targets:
            best = self._deliver(state, (state.held, -1), state.location, state.opened, remembered)
        useful = (*(r for _, r in sources), *self.game.appliances, *self.game.goals)
        for spent, location, opened in self._free_hands(state, useful):
            for thing, r in sources:
                cost = spent + self._reach(location, r, opened) + 1
                if cost < best:
                    rest = self._deliver(
                        state, (thing, r), self.game.locations[r], opened | 1 << r, remembered
                    )
                    best = min(best, cost + rest)
        return best

    def _deliver(
        self, state: State, source: Source, location: int, opened: int, remembered: dict[tuple[int, int], int]
    ) -> int:
        """Cost to treat and put down the held object, taken from ``source``."""
        game, (thing, taken_from) = self.game, source
        treatment = game.treatment
        # An object that is listed in two receptacles may still count as being in a goal receptacle.
        counts = any(thing in state.contents[r] for r in game.goals if r != taken_from)
        if treatment is None or state.properties & game.bit(treatment.done, thing):
            return 0 if counts else self._put(thing, location, opened, remembered)
        if thing not in game.able["treatable"]:
            return IMPOSSIBLE
        best = IMPOSSIBLE
        for r in game.appliances:
            there = game.locations[r]
            rest = 0 if counts else self._put(thing, there, opened, remembered)
            best = min(best, (there != location) + 1 + rest)
        return best

    def _put(self, thing: int, location: int, opened: int, remembered: dict[tuple[int, int], int]) -> int:
        found = remembered.get((location, opened))
        if found is None:  # all targets are of one type, so they fit the same receptacles
            accepts = self.game.accepts[thing]
            costs = [self._reach(location, r, opened) + 1 for r in self.game.goals if r in accepts]
            found = remembered[location, opened] = min(costs, default=IMPOSSIBLE)
        return found

    def _look(self, state: State) -> int:
        """A target in the hand where a lamp has been turned on."""
        game = self.game
        lamps = [
            (lamp, r) for r, inner in enumerate(state.contents) for lamp in game.lamps.intersection(inner)
        ]
        if state.held in game.targets:
            return self._light(state, state.location, lamps)
        sources = self._sources(state)
        best = IMPOSSIBLE
        useful = [r for _, r in (*sources, *lamps)]
        if state.held in game.lamps:
            useful = list(range(len(game.receptacles)))
        for r, (spent, location, opened) in self._drops(state, useful):
            moved = [*lamps, (state.held, r)] if state.held in game.lamps else lamps
            for _, source in sources:
                cost = spent + self._reach(location, source, opened) + 1
                best = min(best, cost + self._light(state, game.locations[source], moved))
        return best

    def _light(self, state: State, location: int, lamps: Sequence[Source]) -> int:
        game = self.game
        costs = [
            (game.locations[r] != location) + (not state.properties & game.bit("istoggled", lamp))
            for lamp, r in lamps
        ]
        return min(costs, default=IMPOSSIBLE)

    def _two(self, state: State) -> int:
        """Two objects of one type into the same goal receptacle."""
        game = self.game
        every = self._sources(state)
        best = IMPOSSIBLE
        for goal in game.goals:
            there = game.targets.intersection(state.contents[goal])
            missing = 2 - len(there)
            sources = [(thing, r) for thing, r in every if thing not in there and goal in game.accepts[thing]]
            if state.held in game.targets - there and goal in game.accepts[state.held]:
                cost = self._reach(state.location, goal, state.opened) + 1
                cost += self._gather(
                    missing - 1, goal, sources, game.locations[goal], state.opened | 1 << goal
                )
                best = min(best, cost)
                continue
            useful = (*(r for _, r in sources), goal)
            for spent, location, opened in self._free_hands(state, useful):
                if spent + 2 * missing < best:
                    best = min(best, spent + self._gather(missing, goal, sources, location, opened))
        return best

    def _gather(self, missing: int, goal: int, sources: Sequence[Source], location: int, opened: int) -> int:
        if missing == 0:
            return 0
        game = self.game
        best = IMPOSSIBLE
        for thing, r in sources:
            cost = (
                self._reach(location, r, opened) + 2 + self._reach(game.locations[r], goal, opened | 1 << r)
            )
            if cost < best:
                others = [source for source in sources if source[0] != thing]
                after = opened | 1 << r | 1 << goal
                best = min(best, cost + self._gather(missing - 1, goal, others, game.locations[goal], after))
        return best

    # Pieces

    def _reach(self, location: int, r: int, opened: int) -> int:
        """Commands to stand at receptacle ``r`` with it open: 0, 1 or 2."""
        game = self.game
        return (game.locations[r] != location) + ((game.openable & ~opened) >> r & 1)

    def _sources(self, state: State) -> list[Source]:
        targets = self.game.targets & self.game.able["pickupable"]
        return [
            (thing, r)
            for r, inner in enumerate(state.contents)
            if not targets.isdisjoint(inner)
            for thing in inner
            if thing in targets and thing != state.held
        ]

    def _free_hands(self, state: State, useful: Iterable[int]) -> list[Start]:
        return [start for _, start in self._drops(state, useful)]

    def _drops(self, state: State, useful: Iterable[int]) -> list[tuple[int, Start]]:
        """Ways to have empty hands, with the receptacle that was used (-1 if they were empty).

        Putting down where nothing else is to be done helps nothing later: of those the cheapest is enough.
        """
        if state.held == NOWHERE:
            return [(-1, (0, state.location, state.opened))]
        game = self.game
        places = {game.locations[r] for r in useful}
        kept: list[tuple[int, Start]] = []
        elsewhere: tuple[int, Start] | None = None
        for r in game.accepts[state.held]:
            cost = self._reach(state.location, r, state.opened) + 1
            way = (r, (cost, game.locations[r], state.opened | 1 << r))
            if game.locations[r] in places:
                kept.append(way)
            elif elsewhere is None or cost < elsewhere[1][0]:
                elsewhere = way
        return [*kept, elsewhere] if elsewhere is not None else kept

    def _locations_that_matter(self, state: State) -> set[int]:
        game = self.game
        useful = {r for _, r in self._sources(state)}.union(game.goals, game.appliances)
        if state.held != NOWHERE:
            useful.update(game.accepts[state.held])
        useful.update(r for r, inner in enumerate(state.contents) if not game.lamps.isdisjoint(inner))
        return {game.locations[r] for r in useful}
