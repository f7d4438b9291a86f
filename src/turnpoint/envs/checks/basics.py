"""Proofs about tasks, seeds, actions, endings and words."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict

from turnpoint.envs.checks.walks import (
    HUGE,
    JUNK,
    Bench,
    CheckFailed,
    CheckSkipped,
    Outcome,
    Walk,
    choose_any,
    choose_best,
    record,
    same_observation,
    same_step,
    seek,
    short,
)
from turnpoint.envs.family import Starving
from turnpoint.envs.protocol import Env, EnvError
from turnpoint.records import Step, Task

_SLOW = 5.0


def tasks(bench: Bench) -> Outcome:
    """Splits are not empty, fixed, of unique ids, and made of plain JSON values."""
    counts = {}
    for split in ("train", "valid"):
        listed = bench.suite.tasks(split)
        counts[split] = len(listed)
        if not counts[split]:
            raise CheckFailed(f"split {split} has no tasks")
        for index in {0, counts[split] // 2, counts[split] - 1}:
            _plain_task(listed[index])
            if bench.suite.tasks(split)[index] != listed[index]:
                raise CheckFailed(f"task {index} of split {split} differs between two calls of tasks()")
        ids = [listed[index].id for index in range(min(counts[split], 2000))]
        if len(set(ids)) != len(ids):
            raise CheckFailed(f"split {split} has tasks with equal ids")
    return f"{counts['train']} train and {counts['valid']} valid tasks", sum(counts.values())


def _plain_task(task: Task) -> None:
    data = dict(task.data)
    try:
        back = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"task {task.id}: its data is not plain JSON: {error}") from error
    if back != data:
        raise CheckFailed(f"task {task.id}: its data changes when it goes through JSON: {short(data)}")


def capabilities(bench: Bench) -> Outcome:
    """Copies agree with the suite, and what is not claimed raises ``EnvError``."""
    suite, env = bench.suite, bench.suite.make()
    if env.capabilities != suite.capabilities:
        raise CheckFailed(f"a copy claims {env.capabilities}, its suite {suite.capabilities}")
    if suite.max_turns < 1:
        raise CheckFailed(f"max_turns is {suite.max_turns}; it must be at least 1")
    observation = env.reset(bench.tasks[0])
    if suite.capabilities.admissible and observation.admissible is None:
        raise CheckFailed("admissible actions are claimed, but the first observation lists none")
    absent = []
    if not suite.capabilities.snapshots:
        absent += [("snapshot()", env.snapshot), ("restore()", lambda: env.restore(None))]
    if not suite.capabilities.oracle:
        absent += [("distance()", env.distance), ("best_actions()", env.best_actions)]
    for name, call in absent:
        try:
            call()
        except EnvError:
            continue
        raise CheckFailed(f"{name} is not claimed, so it must raise EnvError; it answered")
    json.dumps(suite.header())
    env.close()
    env.close()
    claims = asdict(suite.capabilities)
    return ", ".join(f"{'' if has else 'no '}{name}" for name, has in claims.items()), sum(claims.values())


def seeds(bench: Bench) -> Outcome:
    """Equal tasks start equally: again, after other tasks, and in another copy."""
    bench.need(deterministic=True)
    one, other = bench.suite.make(), bench.suite.make()
    first = [one.reset(task) for task in bench.tasks]
    for task, expected in reversed(list(zip(bench.tasks, first, strict=True))):
        same_observation(f"task {task.id}, reset again", expected, one.reset(task))
        same_observation(f"task {task.id}, reset in another copy", expected, other.reset(task))
    return f"{len(first)} tasks", len(first)


def replay(bench: Bench) -> Outcome:
    """The recorded actions give the recorded answers, in another copy."""
    bench.need(deterministic=True)
    env, turns = bench.suite.make(), 0
    for walk in bench.walks:
        same_observation(f"{walk.name}, turn 0", walk.episode.observation_at(0), env.reset(walk.episode.task))
        for index, turn in enumerate(walk.episode.turns):
            same_step(f"{walk.name}, turn {index}", walk.steps[index], env.step(turn.executed))
            turns += 1
    return f"{turns} turns of {len(bench.walks)} walks", turns


def junk(bench: Bench) -> Outcome:
    """Empty, hostile and huge texts are answered in time, and not accepted."""
    env, tried = bench.suite.make(), 0
    for task in bench.tasks[:2]:
        for text in (*JUNK, HUGE):
            env.reset(task)
            begin, starving = time.perf_counter(), Starving(os.getpid())
            step = _answer(env, text)
            if time.perf_counter() - begin - starving.seconds() > _SLOW:  # a busy machine is not its fault
                raise CheckFailed(f"task {task.id}: action {short(text)} took longer than {_SLOW:g} s")
            if step.effective and bench.suite.capabilities.admissible:
                raise CheckFailed(f"task {task.id}: action {short(text)} was accepted, but is not admissible")
            tried += 1
    return f"{tried} texts", tried


def _answer(env: Env, text: str) -> Step:
    try:
        step = env.step(text)
    except Exception as error:
        raise CheckFailed(
            f"action {short(text)} raised {type(error).__name__} ({error}); an unknown action must be answered"
        ) from error
    if not isinstance(step, Step):
        raise CheckFailed(f"action {short(text)} was answered with a {type(step).__name__}, not a Step")
    return step


def admissible(bench: Bench) -> Outcome:
    """Every listed action is accepted where it is listed."""
    if not bench.suite.capabilities.admissible:
        raise CheckSkipped("the environment does not list its actions")
    env, tried = bench.suite.make(), 0
    for walk in bench.walks:
        _walked_actions_were_accepted(walk)
        if not (bench.native or bench.suite.capabilities.deterministic):
            continue
        for index in bench.sample(range(len(walk.steps))):
            actions = walk.episode.turns[index].observation.admissible or ()
            for action in bench.sample(actions):
                seek(env, walk, index)
                if not _answer(env, action).effective:
                    raise CheckFailed(
                        f"{walk.name}, turn {index}: admissible action {action!r} was not accepted"
                    )
                tried += 1
    return f"{tried} actions", tried


def _walked_actions_were_accepted(walk: Walk) -> None:
    for index, turn in enumerate(walk.episode.turns):
        listed = turn.observation.admissible
        if listed is None:
            raise CheckFailed(f"{walk.name}, turn {index}: no admissible actions are listed")
        if len(set(listed)) != len(listed):
            raise CheckFailed(f"{walk.name}, turn {index}: an action is listed twice: {short(listed)}")
        if not listed:
            raise CheckFailed(f"{walk.name}, turn {index}: the episode is open, but no action is admissible")
        if turn.executed in listed and not turn.effective:
            raise CheckFailed(f"{walk.name}, turn {index}: {turn.executed!r} was not accepted")


def endings(bench: Bench) -> Outcome:
    """The last step, and only it, has an outcome; a step after it is answered or raises ``EnvError``."""
    env, ended = bench.suite.make(), 0
    for walk in [*bench.walks, *_to_the_end(bench, env)]:
        for index, step in enumerate(walk.steps):
            if step.done is not (step.success is not None):
                raise CheckFailed(
                    f"{walk.name}, turn {index}: done is {step.done}, but success is {step.success}; "
                    "success is set on the last step and None before"
                )
        ended += bool(walk.steps and walk.steps[-1].done)
    return f"{ended} walks ended", ended


def _to_the_end(bench: Bench, env: Env) -> Iterable[Walk]:
    """Walks played on after their end, if they have one."""
    choose = choose_best if bench.suite.capabilities.oracle else choose_any
    for task in bench.tasks[:2]:
        walk = record(env, task, choose, bench.suite.max_turns)
        if walk.steps and walk.steps[-1].done:
            try:
                env.step("look")
            except EnvError:
                pass
            except Exception as error:
                raise CheckFailed(
                    f"{walk.name}: a step after the end raised {type(error).__name__}"
                ) from error
        yield walk


def vocabulary(bench: Bench) -> Outcome:
    """A closed vocabulary holds every word that is shown."""
    try:
        texts = list(bench.suite.vocabulary_texts())
    except EnvError as error:
        raise CheckSkipped(f"the language is open: {error}") from error
    known = set(_words(" ".join(texts)))
    for walk in bench.walks:
        for observation in map(walk.episode.observation_at, range(len(walk.steps) + 1)):
            shown = [walk.episode.task.instruction, observation.text, *(observation.admissible or ())]
            unknown = sorted(set(_words(" ".join(shown))) - known)
            if unknown:
                raise CheckFailed(f"{walk.name}: vocabulary_texts() lacks {', '.join(unknown[:8])}")
    return f"{len(known)} words", len(known)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())
