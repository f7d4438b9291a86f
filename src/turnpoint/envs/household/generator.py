"""Household games from seeds: the six task types with the frequencies of real games, all winnable."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game
from turnpoint.envs.household.goals import COOL, HEAT, LOOK, SIMPLE, TREATMENTS, TWO, Goal
from turnpoint.envs.household.index import index_game
from turnpoint.envs.household.layout import APPLIANCES, LAMP, Spot, draw_layout, lamp_stands, task_rooms
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.problem import Fact, Problem
from turnpoint.envs.household.settings import GeneratorSettings
from turnpoint.envs.household.statistics import ABILITIES, Statistics, load_statistics
from turnpoint.envs.household.traps import draw_look_alikes, is_tempting
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import VALID_SEED

PHRASES = {
    SIMPLE: ("put some {thing} on {place}.", "put a {thing} in {place}."),
    TWO: ("put two {thing} in {place}.", "find two {thing} and put them in {place}."),
    LOOK: ("look at {thing} under the desklamp.", "examine the {thing} with the desklamp."),
    HEAT: ("put a hot {thing} in {place}.", "heat some {thing} and put it in {place}."),
    COOL: ("put a cool {thing} in {place}.", "cool some {thing} and put it in {place}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {thing} in {place}.",
        "clean some {thing} and put it in {place}.",
    ),
}
"""Task sentences of real games, after ``Your task is to: ``."""
_ATTEMPTS = 60


@dataclass
class _Draft:
    """A game being drawn: ``things`` are (type, spot index)."""

    spots: tuple[Spot, ...]
    types: Sequence[str]
    kind: str
    target: str = ""
    place: str = ""
    things: list[tuple[str, int]] = field(default_factory=list)
    stuck: frozenset[str] = frozenset()


class Generator:
    """Draws games of one configuration. The same settings and seed give the same game in every process."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self.settings = settings
        self.statistics: Statistics = load_statistics()
        self._stream = f"household/{settings.layout_seed}"
        self.types = self._closed_types()
        self.fixed: tuple[Spot, ...] | None = None
        if settings.layout == "fixed":
            rng = random.Random(f"{self._stream}/layout")
            self.fixed = self._layout(rng, settings.rooms, settings.task_types)

    def kind(self, seed: int) -> str:
        """Task type of a seed: the configured types in turn."""
        return self.settings.task_types[seed % len(self.settings.task_types)]

    def tempting(self, seed: int) -> bool:
        """Whether the game of ``seed`` has temptations."""
        return is_tempting(seed, self._stream, self.settings.temptations)

    def game(self, seed: int) -> Game:
        """The game of ``seed`` with a shortest walkthrough. Raises ``EnvDataError`` if none can be drawn."""
        rng = random.Random(f"{self._stream}/game/{seed}")
        kind = self.kind(seed)
        for _ in range(_ATTEMPTS):
            draft = self._draft(rng, kind, tempting=self.tempting(seed))
            if draft is None:
                continue
            problem = self._problem(rng, draft)
            if in_valid(problem) != (seed >= VALID_SEED):
                continue
            game = index_game(problem, f"generated game {seed}")
            plan = Oracle(Engine(game)).plan(game.start)
            if plan:
                return replace(game, problem=replace(problem, walkthrough=tuple(plan)))
        raise EnvDataError(
            f"no winnable game of type {kind} came out of {_ATTEMPTS} draws for seed {seed}; allow more "
            "receptacles, more object_types or other rooms"
        )

    # Drawing

    def _closed_types(self) -> tuple[str, ...]:
        """Object types that may appear: for every task type its most common target, then by frequency."""
        frequency: Counter[str] = Counter()
        for room in self.settings.rooms:
            frequency.update(self.statistics.objects[room])
        order = sorted(frequency, key=lambda name: (-frequency[name], name))
        wanted: list[str] = []
        for kind in self.settings.task_types:
            targets: Counter[str] = Counter()
            for (target, _), count in self.statistics.tasks[kind].items():
                targets[target] += count if target in frequency else 0
            wanted += sorted(targets, key=lambda name: (-targets[name], name))[:1]
        return tuple(dict.fromkeys([*wanted, *order]))[: self.settings.object_types]

    def _layout(self, rng: random.Random, rooms: Sequence[str], kinds: Sequence[str]) -> tuple[Spot, ...]:
        settings = self.settings
        return draw_layout(
            rng, self.statistics, rooms, settings.receptacles, kinds, settings.shared_locations
        )

    def _draft(self, rng: random.Random, kind: str, *, tempting: bool) -> _Draft | None:
        settings = self.settings
        if self.fixed is not None:
            rooms, spots = settings.rooms, self.fixed
        else:
            rooms = (rng.choice([room for room in settings.rooms if room in task_rooms(kind)]),)
            spots = self._layout(rng, rooms, [kind])
        frequency: Counter[str] = Counter()
        for room in rooms:
            frequency.update(self.statistics.objects[room])
        # Types that no receptacle here accepts are left to the temptations.
        types = [
            name
            for name in self.types
            if frequency[name] and self._homes(name, spots) and self._accepting(name, spots)
        ]
        draft = _Draft(spots, types, kind)
        pairs = self._pairs(draft)
        if not pairs:
            return None
        draft.target, draft.place = rng.choices(list(pairs), list(pairs.values()))[0]
        count = rng.randint(*settings.objects)
        self._place_targets(rng, draft)
        if tempting:
            self._place_traps(rng, draft)
        weights = [frequency[name] for name in types]
        while len(draft.things) < count:
            name = rng.choices(types, weights)[0]
            if name == draft.target:
                self._place_target(rng, draft)
            else:
                draft.things.append((name, self._home(rng, name, spots)))
        return draft

    def _pairs(self, draft: _Draft) -> dict[tuple[str, str], int]:
        """Target and goal receptacle types that this room allows, weighted by real games plus one."""
        statistics, kind = self.statistics, draft.kind
        treatment = TREATMENTS.get(kind)
        able = (
            draft.types
            if treatment is None
            else [t for t in draft.types if t in statistics.able[treatment.able]]
        )
        real = statistics.tasks[kind]
        if kind == LOOK:
            return {(name, LAMP): 1 + real.get((name, LAMP), 0) for name in able}
        pairs = {}
        for name in able:
            homes = {draft.spots[i].kind for i in self._homes(name, draft.spots)}
            for place in sorted(self._accepting(name, draft.spots) - {APPLIANCES.get(kind, "")}):
                if homes - {place}:
                    pairs[name, place] = 1 + real.get((name, place), 0)
        return pairs

    def _place_targets(self, rng: random.Random, draft: _Draft) -> None:
        for _ in range(2 if draft.kind == TWO else 1):
            self._place_target(rng, draft)
        if draft.kind == LOOK:
            stands = lamp_stands(self.statistics)
            on = [i for i, spot in enumerate(draft.spots) if spot.kind in stands]
            draft.things.append((LAMP, rng.choice(on)))

    def _place_target(self, rng: random.Random, draft: _Draft) -> None:
        # Never where it is wanted: a game must not start solved, or half solved by luck.
        draft.things.append((draft.target, self._home(rng, draft.target, draft.spots, without=draft.place)))

    def _place_traps(self, rng: random.Random, draft: _Draft) -> None:
        """One trap beside the target, the others where one would look for it; most fit nowhere."""
        count = self.settings.traps
        drawn = draw_look_alikes(rng, self.statistics, draft.target, draft.types, count)
        draft.stuck = frozenset(drawn[: max(1, len(drawn) - 1)])
        for number, name in enumerate(drawn):
            beside = number == 0 or rng.random() < 0.6
            spot = draft.things[0][1] if beside else self._home(rng, draft.target, draft.spots)
            draft.things.append((name, spot))

    def _accepting(self, name: str, spots: Sequence[Spot]) -> set[str]:
        return {spot.kind for spot in spots}.intersection(self.statistics.can_contain.get(name, ()))

    def _homes(self, name: str, spots: Sequence[Spot], without: str = "") -> dict[int, float]:
        """Spots where objects of this type are found, with weights."""
        kinds = Counter(spot.kind for spot in spots)
        row = self.statistics.placements.get(name, {})
        return {
            i: row[spot.kind] / kinds[spot.kind]
            for i, spot in enumerate(spots)
            if spot.kind != without and row.get(spot.kind)
        }

    def _home(self, rng: random.Random, name: str, spots: Sequence[Spot], without: str = "") -> int:
        homes = self._homes(name, spots, without)
        return rng.choices(list(homes), list(homes.values()))[0]

    # Facts

    def _problem(self, rng: random.Random, draft: _Draft) -> Problem:
        statistics = self.statistics
        receptacles = [identifier(spot.kind, i) for i, spot in enumerate(draft.spots)]
        start = max(spot.location for spot in draft.spots) + 1
        facts: set[Fact] = {("atlocation", "agent1", _place(start))}
        for name, spot in zip(receptacles, draft.spots, strict=True):
            facts |= {("receptacletype", name, spot.kind + "type")}
            facts |= {("receptacleatlocation", name, _place(spot.location))}
            facts |= {("openable", name)} if spot.openable else set()
        for i, (kind, spot_index) in enumerate(draft.things):
            thing = identifier(kind, i)
            facts |= {("objecttype", thing, kind + "type"), ("inreceptacle", thing, receptacles[spot_index])}
            facts.add(("objectatlocation", thing, _place(draft.spots[spot_index].location)))
            facts.add(("toggleable" if kind == LAMP else "pickupable", thing))
            facts |= {(ability, thing) for ability in ABILITIES if kind in statistics.able[ability]}
        facts |= {
            ("cancontain", place + "type", kind + "type")
            for kind in {kind for kind, _ in draft.things} - draft.stuck - {LAMP}
            for place in self._accepting(kind, draft.spots)
        }
        phrase = rng.choice(PHRASES[draft.kind]).format(thing=draft.target, place=draft.place)
        if draft.kind == LOOK:
            goal = Goal(LOOK, draft.target + "type", lamp=LAMP + "type")
        else:
            goal = Goal(draft.kind, draft.target + "type", draft.place + "type")
        return Problem(f"Your task is to: {phrase}", goal, frozenset(facts))


def in_valid(problem: Problem) -> bool:
    """The only split in which a problem may appear: small worlds repeat themselves, splits never overlap."""
    text = repr((problem.task, sorted(problem.facts)))
    return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] >= 128


def identifier(kind: str, number: int) -> str:
    """An ALFWorld identifier: the engine derives the display name from it."""
    head, tail = (kind.removesuffix("basin"), f"_bar_{kind}") if kind.endswith("basin") else (kind, "")
    return f"{head}_bar__plus_{number:02d}_dot_00_bar__plus_00_dot_00_bar__plus_00_dot_00{tail}"


def _place(number: int) -> str:
    return f"loc_bar_{number}_bar_0_bar_0_bar_30"
