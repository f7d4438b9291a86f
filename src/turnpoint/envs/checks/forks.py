"""Proofs about bringing states back, and about the keys that name them."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from turnpoint.envs.checks.walks import (
    Bench,
    CheckFailed,
    CheckSkipped,
    Outcome,
    Walk,
    choose_any,
    same_observation,
    same_step,
    seek,
    short,
)
from turnpoint.envs.draw import draw_action
from turnpoint.envs.protocol import Env
from turnpoint.records import Step

_DRAWN = 3
"""Actions tried in both of two states with equal keys, where none are listed."""


def forks(bench: Bench) -> Outcome:
    """Every state comes back and goes on as recorded: in the same copy, in another, and after a detour."""
    bench.need(restorable=True)
    own, other = bench.suite.make(), bench.suite.make()
    tried = 0
    for number, walk in enumerate(bench.walks):
        elsewhere = bench.tasks[(number + 1) % len(bench.tasks)]
        for index in bench.sample(range(len(walk.steps) + 1)):
            for env, which in ((own, "restored"), (other, "restored in another copy")):
                env.reset(elsewhere)
                _go_on(bench, env, walk, index, f"{walk.name}, turn {index}, {which}")
                _detour(env, walk, index)
                _go_on(bench, env, walk, index, f"{walk.name}, turn {index}, {which} after a detour")
            tried += 1
    return f"{tried} states", tried


def _go_on(bench: Bench, env: Env, walk: Walk, index: int, where: str) -> None:
    """Restore the state before turn ``index`` and repeat the rest."""
    got = seek(env, walk, index)
    same_observation(where, walk.episode.observation_at(index), got)
    if not bench.suite.capabilities.deterministic:
        return
    for later in range(index, len(walk.steps)):
        got_step = env.step(walk.episode.turns[later].executed)
        same_step(f"{where}, then turn {later}", walk.steps[later], got_step)


def _detour(env: Env, walk: Walk, index: int) -> None:
    """Play something else from there: state that a snapshot shares with the live game would be spoilt."""
    observation = seek(env, walk, index)
    if index and walk.steps[index - 1].done:
        return
    draw = random.Random(f"detour/{walk.name}/{index}")
    for _ in range(6):
        step = env.step(choose_any(env, observation, draw))
        observation = step.observation
        if step.done:
            return


def state_keys(bench: Bench) -> Outcome:
    """States with equal keys allow the same actions with the same effects; equal snapshots have equal keys."""
    bench.need(deterministic=True)
    env, places, compared = bench.suite.make(), 0, 0
    for task in bench.tasks:
        walks = [walk for walk in bench.walks if walk.episode.task is task]
        same: dict[str, list[tuple[Walk, int]]] = defaultdict(list)
        for walk in walks:
            for index in range(len(walk.steps) + 1):
                key = walk.episode.observation_at(index).state_key
                if key is None:
                    raise CheckSkipped("states have no keys; step-level groups fall back on the observation")
                same[key].append((walk, index))
                places += 1
        for key, found in same.items():
            for walk, index in found[1:]:
                _same_state(bench, env, key, found[0], (walk, index))
                compared += 1
        _equal_snapshots(walks)
    return f"{places} states, {compared} pairs with equal keys", compared


def _same_state(bench: Bench, env: Env, key: str, one: tuple[Walk, int], two: tuple[Walk, int]) -> None:
    where = f"{one[0].name}: turns {one[1]} and {two[1]} have state key {short(key)}"
    listed = [set(walk.episode.observation_at(index).admissible or ()) for walk, index in (one, two)]
    if listed[0] != listed[1]:
        raise CheckFailed(f"{where}, but other admissible actions: {short(sorted(listed[0] ^ listed[1]))}")
    if bench.suite.capabilities.oracle:
        distances = [_distance(env, walk, index) for walk, index in (one, two)]
        if distances[0] != distances[1]:
            raise CheckFailed(f"{where}, but distances {distances[0]} and {distances[1]}")
    if any(index == len(walk.steps) for walk, index in (one, two)):
        return  # nothing need be playable after the end
    for action in sorted(listed[0])[:: 1 if bench.native else 8] or _drawn(env, *one):
        effects = [_effect(env, walk, index, action) for walk, index in (one, two)]
        if effects[0] != effects[1]:
            raise CheckFailed(
                f"{where}, but {action!r} leads to {short(effects[0])} and {short(effects[1])} there"
            )


def _drawn(env: Env, walk: Walk, index: int) -> list[str]:
    """Actions to compare where none are listed."""
    draw = random.Random(f"effects/{walk.name}/{index}")
    seen = seek(env, walk, index)
    return [action for _ in range(_DRAWN) if (action := draw_action(env, seen, draw)) is not None]


def _distance(env: Env, walk: Walk, index: int) -> int | None:
    seek(env, walk, index)
    return env.distance()


def _effect(env: Env, walk: Walk, index: int, action: str) -> tuple[Any, ...]:
    """What an action does to the state; its wording is left out, as it may tell the time."""
    seek(env, walk, index)
    step: Step = env.step(action)
    return step.observation.state_key, step.reward, step.done, step.success, step.effective


def _equal_snapshots(walks: list[Walk]) -> None:
    turns = [turn for walk in walks for turn in walk.episode.turns if turn.snapshot is not None]
    for index, one in enumerate(turns):
        for two in turns[index + 1 :]:
            if one.observation.state_key != two.observation.state_key and _equal(one.snapshot, two.snapshot):
                raise CheckFailed(
                    f"equal snapshots have keys {short(one.observation.state_key)} and "
                    f"{short(two.observation.state_key)}"
                )


def _equal(one: Any, two: Any) -> bool:
    try:
        return bool(one == two)
    except Exception:
        return False  # snapshots need not be comparable
