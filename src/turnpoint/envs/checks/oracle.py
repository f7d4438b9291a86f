"""Proofs about distances and best actions."""

from __future__ import annotations

from turnpoint.envs.checks.walks import Bench, CheckFailed, Outcome, Walk, seek, short
from turnpoint.envs.protocol import Env, Knowledge
from turnpoint.records import Observation, Task

_RARE = 4
"""At most one in so many tasks may be impossible from its start."""
_PATIENCE = 8
"""Budgets after which an observer who has not finished is held to go in circles."""


def full_path(bench: Bench) -> Outcome:
    """Each first best action lowers the distance by one, down to success at 0."""
    bench.need(oracle=True, deterministic=True)
    env, total, fit, impossible = bench.suite.make(), 0, 0, 0
    for task in bench.tasks:
        env.reset(task)
        length = env.distance()
        if length is None:  # some released data sets have a few such tasks
            impossible += 1
            if impossible * _RARE > len(bench.tasks):
                raise CheckFailed(
                    f"task {task.id} is impossible from its start ({impossible} of {len(bench.tasks)} so far)"
                )
            continue
        _descend(env, task, length)
        total += length
        fit += length <= bench.suite.max_turns
    if not fit:
        raise CheckFailed(f"no task can be solved within max_turns ({bench.suite.max_turns})")
    mean = total / (len(bench.tasks) - impossible)
    left = f", {impossible} impossible" if impossible else ""
    return f"{len(bench.tasks)} tasks{left}, {mean:.1f} turns on average, {fit} within max_turns", mean


def _descend(env: Env, task: Task, length: int) -> None:
    for left in range(length, 0, -1):
        best = env.best_actions("full")
        if not best:
            raise CheckFailed(f"task {task.id}: no best action at distance {left}")
        step, after = env.step(best[0]), env.distance()
        if after != left - 1:
            raise CheckFailed(f"task {task.id}: best action {best[0]!r} led from distance {left} to {after}")
        if step.done is not (left == 1):
            raise CheckFailed(f"task {task.id}: done is {step.done} at distance {after}")
    if length and not step.success:
        raise CheckFailed(f"task {task.id}: success is {step.success} after the best actions")
    if env.best_actions("full") or env.best_actions("observed"):
        raise CheckFailed(f"task {task.id}: there are best actions although the task is done")


def full_neighbours(bench: Bench) -> Outcome:
    """Best actions are exactly the admissible ones that lower the distance by one; none lowers it by more."""
    bench.need(oracle=True, deterministic=True)
    env, tried = bench.suite.make(), 0
    for walk in bench.walks:
        for index in bench.sample(range(len(walk.steps))):
            tried += _neighbours(bench, env, walk, index)
    return f"{tried} actions", tried


def _neighbours(bench: Bench, env: Env, walk: Walk, index: int) -> int:
    observation = seek(env, walk, index)
    distance, best = env.distance(), env.best_actions("full")
    where = f"{walk.name}, turn {index} at distance {distance}"
    _well_formed(where, best, observation)
    if distance is None:
        if best:
            raise CheckFailed(f"{where}: the task is impossible, but best actions are {short(best)}")
    elif not best:
        raise CheckFailed(f"{where}: there is no best action")
    listed = observation.admissible if observation.admissible is not None else tuple(best)
    actions = bench.sample(listed)
    for action in actions:
        seek(env, walk, index)
        env.step(action)
        after = env.distance()
        if distance is None:
            if after is not None:
                raise CheckFailed(f"{where}: {action!r} makes an impossible task possible ({after})")
        elif after is not None and after < distance - 1:
            raise CheckFailed(f"{where}: {action!r} lowers the distance to {after}, by more than one")
        elif (after == distance - 1) is not (action in best):
            verb = "is missing from" if action not in best else "stands in"
            raise CheckFailed(
                f"{where}: {action!r} leads to distance {after}, but {verb} best_actions('full')"
            )
    return len(actions)


def _well_formed(where: str, best: list[str], observation: Observation) -> None:
    if len(set(best)) != len(best):
        raise CheckFailed(f"{where}: best actions repeat: {short(best)}")
    extra = [action for action in best if action not in (observation.admissible or best)]
    if extra:
        raise CheckFailed(f"{where}: best action {extra[0]!r} is not admissible")


def observed_path(bench: Bench) -> Outcome:
    """An observer's best actions are admissible and end in success, except where a gamble was lost."""
    bench.need(oracle=True)
    env, won, turns = bench.suite.make(), 0, 0
    limit = bench.suite.max_turns * _PATIENCE
    for task in bench.tasks:
        played, success = _observe(env, task, limit)
        won, turns = won + success, turns + played
    if won * 2 < len(bench.tasks):
        raise CheckFailed(f"best_actions('observed') solves only {won} of {len(bench.tasks)} tasks")
    mean = turns / len(bench.tasks)
    return f"{won} of {len(bench.tasks)} tasks solved in {mean:.1f} turns on average", mean


def _observe(env: Env, task: Task, limit: int) -> tuple[int, bool]:
    observation = env.reset(task)
    for played in range(limit):
        best = env.best_actions("observed")
        where = f"task {task.id}, observed turn {played}"
        _well_formed(where, best, observation)
        if not best and env.distance() is None:
            return played, False
        if not best:
            raise CheckFailed(f"{where}: an observer has no best action, but the task can still be solved")
        step = env.step(best[0])
        if not step.effective:
            raise CheckFailed(f"{where}: best action {best[0]!r} was not accepted")
        observation = step.observation
        if step.done:
            return played + 1, bool(step.success)
    raise CheckFailed(f"task {task.id}: following best_actions('observed') did not end within {limit} turns")


def observed_states(bench: Bench) -> Outcome:
    """Best actions of an observer are admissible in every state of the walks, also after mistakes."""
    bench.need(oracle=True, restorable=True)
    env, asked = bench.suite.make(), 0
    kinds: tuple[Knowledge, ...] = ("observed", "full")
    for walk in bench.walks:
        for index in bench.sample(range(len(walk.steps))):
            observation = seek(env, walk, index)
            for knowledge in kinds:
                where = f"{walk.name}, turn {index}, knowledge {knowledge}"
                _well_formed(where, env.best_actions(knowledge), observation)
            asked += 1
    return f"{asked} states", asked
