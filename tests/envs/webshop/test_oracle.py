"""Distances against a search over all clicks, and oracles that buy what was asked for."""

from __future__ import annotations

from collections import deque

from turnpoint.envs.webshop.pages import State
from turnpoint.envs.webshop.settings import CatalogueGeneratorSettings, WebShopSettings
from turnpoint.envs.webshop.suite import WebShopSuite


def brute_distances(suite: WebShopSuite, task) -> dict[State, int]:
    """Turns to a purchase with score 1.0 from every state that clicks and listed searches reach, backwards."""
    play = suite.make()._load(task).play
    before: dict[State, set[State]] = {}
    states, todo, won = {State()}, deque([State()]), []
    while todo:
        state = todo.popleft()
        if state.page == "done":
            won += [state] if play.score(state).total == 1.0 else []
            continue
        for action in play.actions(state) or ():
            after = play.after(state, action)
            assert after is not None, action
            after = after._replace(chosen=tuple(sorted(after.chosen)))
            before.setdefault(after, set()).add(state)
            if after not in states:
                states.add(after)
                todo.append(after)
    distances, todo = dict.fromkeys(won, 0), deque(won)
    while todo:
        state = todo.popleft()
        for earlier in before.get(state, ()):
            if earlier not in distances:
                distances[earlier] = distances[state] + 1
                todo.append(earlier)
    return distances | dict.fromkeys(states - distances.keys(), -1)


def test_distances_are_those_of_a_search_over_all_clicks() -> None:
    look = CatalogueGeneratorSettings(products=14)
    suite = WebShopSettings(searches="listed", generator=look).build()
    compared = 0
    for task in suite.tasks("train")[:4]:
        desk = suite.make()._load(task)
        for state, turns in brute_distances(suite, task).items():
            assert desk.oracle.distance(state) == (None if turns < 0 else turns), (task.id, state)
            compared += 1
    assert compared > 400


def play_best(suite: WebShopSuite, knowledge: str, count: int) -> int:
    env, won = suite.make(), 0
    for task in suite.tasks("valid")[:count]:
        env.reset(task)
        for _ in range(suite.max_turns):
            best = env.best_actions(knowledge)
            if not best:
                break
            step = env.step(best[0])
            assert step.effective
            if step.done:
                won += bool(step.success)
                break
    return won


def test_generated_goals_are_all_bought(generated: WebShopSuite) -> None:
    count = len(generated.tasks("valid"))
    assert play_best(generated, "full", count) == count
    assert play_best(generated, "observed", count) >= 0.95 * count


def test_real_goals_are_bought_as_often_as_the_rules_allow(real: WebShopSuite) -> None:
    assert play_best(real, "full", 300) >= 280
    assert play_best(real, "observed", 100) >= 65


def test_an_option_that_can_never_fit_makes_a_goal_impossible(real: WebShopSuite) -> None:
    env, impossible = real.make(), 0
    for task in real.tasks("valid")[:100]:
        env.reset(task)
        impossible += env.distance() is None
    assert 1 <= impossible <= 10
