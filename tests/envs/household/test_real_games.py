"""The engine on released ALFWorld games: skipped where they are not at hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game
from turnpoint.envs.household.index import index_game
from turnpoint.envs.household.observed import ObservedOracle
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.problem import HELP, parse_problem
from turnpoint.envs.household.statistics import bare, count_games, load_statistics
from turnpoint.envs.household.writing import problem_text

from .conftest import Documents
from .helpers import random_states


def games(documents: Documents, split: str, count: int | None) -> list[Game]:
    return [index_game(parse_problem(doc, Path(name)), name) for name, doc in documents(split, count)]


@pytest.mark.parametrize(("split", "count"), [("valid_seen", None), ("train", 400)])
def test_walkthroughs_win_and_are_shortest(real_documents: Documents, split: str, count: int | None) -> None:
    played = games(real_documents, split, count)
    assert len(played) == (count or 140)
    for game in played:
        engine, state = Engine(game), game.start
        oracle = Oracle(engine)
        left = len(game.problem.walkthrough)
        for command in game.problem.walkthrough:
            assert oracle.distance(state) == left
            assert not engine.won(state)
            state, _, known = engine.step(state, command)
            assert known, command
            left -= 1
        assert engine.won(state)
        assert oracle.distance(state) == 0


def test_best_actions_lower_the_distance_and_forks_agree(real_documents: Documents) -> None:
    for number, game in enumerate(games(real_documents, "valid_seen", 60)):
        engine, rng = Engine(game), random.Random(number)
        oracle = Oracle(engine)
        for state in random_states(engine, number, 12):
            before = state
            distance = oracle.distance(state)
            while distance:
                state = engine.step(state, rng.choice(oracle.best_actions(state)))[0]
                distance -= 1
                assert oracle.distance(state) == distance
            # Playing on from a kept state, on a fresh engine, changes neither it nor what follows.
            again = Engine(game)
            for command in list(engine.commands(before))[:8]:
                assert again.step(before, command) == engine.step(before, command)


def test_the_observed_oracle_wins_every_game(real_documents: Documents) -> None:
    for game in games(real_documents, "valid_seen", None):
        engine, state, turns = Engine(game), game.start, 0
        observed = ObservedOracle(Oracle(engine))
        seen = observed.see(0, state)
        while not engine.won(state):
            action = engine.commands(state)[observed.best_actions(state, seen)[0]]
            state = engine.apply(state, action)
            seen = observed.see(seen, state, action)
            turns += 1
            assert turns <= 30


def test_dead_ends_exist_and_are_recognised(real_documents: Documents) -> None:
    """38 of the 140 games have an object that no receptacle accepts."""
    fatal = 0
    for game in games(real_documents, "valid_seen", None):
        lying = {thing for inner in game.start.contents for thing in inner} & game.able["pickupable"]
        stuck = [thing for thing in lying if not game.accepts[thing]]
        fatal += bool(stuck)
        oracle = Oracle(Engine(game))
        for thing in stuck:
            state = game.start._replace(
                held=thing,
                contents=tuple(
                    tuple(other for other in inner if other != thing) for inner in game.start.contents
                ),
            )
            assert oracle.distance(state) is None
    assert fatal == 38


def test_the_built_in_help_is_the_released_one(real_documents: Documents) -> None:
    (_, document), *_ = real_documents("valid_seen", 1)
    assert parse_problem(document, Path("game")).help == HELP


def test_written_problems_read_back(real_documents: Documents) -> None:
    for name, document in real_documents("valid_seen", 20):
        problem = parse_problem(document, Path(name))
        again = parse_problem(document | {"pddl_problem": problem_text(problem)}, Path(name))
        assert again == problem


def test_embedded_statistics_cover_real_games(real_documents: Documents) -> None:
    statistics = load_statistics()
    sample = games(real_documents, "train", 60)
    table = count_games(sample)
    assert sum(table["games"].values()) == 60
    for thing, row in table["can_contain"].items():
        assert set(row) <= set(statistics.can_contain[thing])
    for thing, row in table["placements"].items():
        assert all(count <= statistics.placements[thing][place] for place, count in row.items())
    for game in sample:
        assert {bare(kind) for kind in game.receptacle_types} <= set(statistics.most)
