from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game, State
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.goals import LOOK, SIMPLE, TWO, Goal
from turnpoint.envs.household.observed import ObservedOracle
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.settings import GeneratorSettings

from .helpers import kitchen, small_game

PLAIN = Generator(GeneratorSettings(receptacles=(6, 10), objects=(5, 9), shared_locations=0.2))


class Walk:
    """A game with the knowledge of an agent that plays it."""

    def __init__(self, game: Game) -> None:
        self.engine = Engine(game)
        self.oracle = Oracle(self.engine)
        self.observed = ObservedOracle(self.oracle)
        self.state: State = game.start
        self.seen = self.observed.see(0, self.state)

    def do(self, *commands: str) -> Walk:
        for command in commands:
            action = self.engine.commands(self.state)[command]
            self.state = self.engine.apply(self.state, action)
            self.seen = self.observed.see(self.seen, self.state, action)
        return self

    def best(self) -> list[str]:
        return self.observed.best_actions(self.state, self.seen)


@pytest.mark.parametrize("choose", ["first", "random"])
def test_following_the_advice_wins_without_knowing_anything(choose: str) -> None:
    for seed in range(60):
        walk = Walk(PLAIN.game(seed))
        rng = random.Random(seed)
        for _ in range(60):
            if walk.engine.won(walk.state):
                break
            best = walk.best()
            walk.do(best[0] if choose == "first" else rng.choice(best))
        assert walk.engine.won(walk.state), seed


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 8))
def test_advice_does_not_depend_on_what_was_not_shown(seed: int, steps: int) -> None:
    """Exchanging the contents of unexplored places leaves the advice as it was."""
    walk = Walk(PLAIN.game(seed % 200))
    rng = random.Random(seed)
    for _ in range(steps):
        walk.do(rng.choice(list(walk.engine.commands(walk.state))))
    game = walk.engine.game
    here = game.at_location[walk.state.location]
    hidden = [r for r in range(len(game.receptacles)) if not walk.seen >> r & 1 and r not in here]
    shuffled = rng.sample(hidden, len(hidden))
    contents = list(walk.state.contents)
    for r, other in zip(hidden, shuffled, strict=True):
        contents[r] = walk.state.contents[other]
    elsewhere = walk.state._replace(contents=tuple(contents))
    if walk.engine.won(elsewhere) or walk.engine.won(walk.state):
        return
    assert walk.observed.best_actions(elsewhere, walk.seen) == walk.best()


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 12))
def test_advice_is_admissible_and_missing_only_where_nothing_helps(seed: int, steps: int) -> None:
    walk = Walk(small_game(seed % 100))
    rng = random.Random(seed)
    for _ in range(steps):
        walk.do(rng.choice(list(walk.engine.commands(walk.state))))
    best = walk.best()
    assert set(best) <= set(walk.engine.commands(walk.state))
    assert len(set(best)) == len(best)
    assert bool(best) == bool(walk.oracle.distance(walk.state))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(0, 8))
def test_with_everything_seen_it_is_the_exact_oracle(seed: int, steps: int) -> None:
    walk = Walk(small_game(seed % 100))
    rng = random.Random(seed)
    for _ in range(steps):
        walk.do(rng.choice(list(walk.engine.commands(walk.state))))
    walk.seen = (1 << len(walk.engine.game.receptacles)) - 1
    assert walk.best() == walk.oracle.best_actions(walk.state)


def test_what_counts_as_seen() -> None:
    walk = Walk(kitchen())
    name = {receptacle: r for r, receptacle in enumerate(walk.engine.game.receptacles)}

    def seen(receptacle: str) -> bool:
        return bool(walk.seen >> name[receptacle] & 1)

    assert walk.seen == 0
    walk.do("go to drawer 1")
    assert not seen("drawer 1")
    walk.do("open drawer 2")
    assert seen("drawer 2")
    assert not seen("drawer 1")
    walk.do("close drawer 2", "go to countertop 1")
    assert seen("drawer 2")
    assert seen("countertop 1")


def test_full_hands_see_only_what_is_named() -> None:
    """``take`` commands show everything within reach, but only to empty hands."""
    both = kitchen(
        ("receptacletype", "shelf_bar_1", "shelftype"), ("receptacleatlocation", "shelf_bar_1", "loc_bar_3")
    )
    shelf = both.receptacles.index("shelf 1")
    empty = Walk(both).do("go to desk 1")
    assert empty.seen >> shelf & 1
    full = Walk(both).do("go to countertop 1", "take mug 2 from countertop 1", "go to desk 1")
    assert not full.seen >> shelf & 1
    assert full.do("examine shelf 1").seen >> shelf & 1


def test_an_unseen_object_is_looked_for_where_such_objects_are() -> None:
    walk = Walk(kitchen(goal=Goal(SIMPLE, "statuetype", "drawertype"), without="microwave_bar_1"))
    assert walk.oracle.best_actions(walk.state) == []  # no drawer takes a statue here
    walk = Walk(kitchen(goal=Goal(SIMPLE, "knifetype", "fridgetype")))
    assert walk.best()[0] == "go to countertop 1"
    assert "go to microwave 1" not in walk.best()


def test_other_sensible_places_are_as_good_and_known_ones_are_not() -> None:
    walk = Walk(kitchen(goal=Goal(SIMPLE, "knifetype", "fridgetype"))).do("go to drawer 1")
    assert {"open drawer 1", "open drawer 2", "go to countertop 1"} <= set(walk.best())
    assert walk.do("go to countertop 1").best() == ["take knife 1 from countertop 1"]


def test_unlikely_places_come_when_nothing_else_is_left() -> None:
    """Real mugs are not kept in drawers; this one is."""
    walk = Walk(kitchen(goal=Goal(TWO, "mugtype", "fridgetype")))
    assert not {"go to drawer 1", "go to drawer 2"} & set(walk.best())
    walk.do(
        "go to countertop 1", "go to sinkbasin 1", "go to desk 1", "go to microwave 1", "open microwave 1"
    )
    walk.do("go to countertop 1", "take mug 2 from countertop 1", "go to fridge 1", "open fridge 1")
    walk.do("move mug 2 to fridge 1")
    assert {"go to drawer 1", "go to drawer 2"} == set(walk.best())


def test_the_goal_receptacle_is_not_searched_for_what_would_have_won() -> None:
    walk = Walk(kitchen(goal=Goal(SIMPLE, "mugtype", "fridgetype")))
    assert "go to fridge 1" not in walk.best()


def test_a_wrong_object_is_put_down_first() -> None:
    walk = Walk(kitchen(goal=Goal(SIMPLE, "mugtype", "fridgetype")))
    walk.do("go to countertop 1", "take apple 1 from countertop 1")
    assert walk.best() == ["move apple 1 to countertop 1"]


def test_an_unseen_lamp_is_looked_for() -> None:
    walk = Walk(kitchen(goal=Goal(LOOK, "mugtype", lamp="desklamptype")))
    walk.do("go to countertop 1", "take mug 2 from countertop 1")
    assert walk.best()[0] == "go to desk 1"
    assert walk.do("go to desk 1").best() == ["use desklamp 1"]


def test_the_second_object_is_looked_for_too() -> None:
    second = (("objecttype", "knife_bar_2", "knifetype"), ("inreceptacle", "knife_bar_2", "drawer_bar_1"))
    game = kitchen(*second, ("pickupable", "knife_bar_2"), goal=Goal(TWO, "knifetype", "fridgetype"))
    walk = Walk(game).do("go to countertop 1")
    assert "take knife 2 from countertop 1" in walk.best()
    walk.do("take knife 2 from countertop 1", "go to fridge 1", "open fridge 1", "move knife 2 to fridge 1")
    assert {"go to drawer 1", "go to drawer 2"} <= set(walk.best())
