"""Demonstrations: episodes played by the environment's oracle, with mistakes and hints mixed in on purpose.

They warm-start small agents. Perfect play alone would teach nothing about states that an imperfect agent gets
into, and an agent that never saw a hint cannot follow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice

import numpy as np

from turnpoint.config import ConfigError
from turnpoint.envs import Env, EnvSuite
from turnpoint.prompts import Prompter, correction_text, reflection_messages, reflection_reply
from turnpoint.records import (
    Attempt,
    Episode,
    EpisodeKind,
    Fork,
    Reflection,
    Task,
)
from turnpoint.rollouts.streams import Streams
from turnpoint.training.demonstrator import DemonstrationSettings, Demonstrator


def make_demonstrations(
    suite: EnvSuite,
    prompter: Prompter,
    tasks: Sequence[Task],
    settings: DemonstrationSettings | None = None,
    *,
    seed: int = 0,
    limit: int | None = None,
) -> Iterator[Episode]:
    """Play ``tasks`` in order, again from the start with other mistakes when they run out.

    Gives ``limit`` demonstrations, one per task if it is None; a failed attempt with a reflection and the attempt
    after it are one demonstration, but two episodes. Turns have ``response`` and, where hinted, ``hint``; they have
    no tokens. Raises ``ConfigError`` if the environment has no oracle, or no admissible actions to draw from.
    """
    settings = settings or DemonstrationSettings()
    if not suite.capabilities.oracle:
        raise ConfigError(
            f"demonstrations are played by an oracle and environment '{suite.name}' has none; "
            "use an environment with one, or supervised training on an episode file"
        )
    if not suite.capabilities.admissible and (settings.noise or settings.hinted or settings.failing):
        raise ConfigError(
            f"environment '{suite.name}' does not list admissible actions to draw mistakes and hints from; "
            "set noise, hinted and failing to 0"
        )
    if settings.failing and not suite.capabilities.snapshots:
        raise ConfigError(
            f"environment '{suite.name}' has no snapshots to go back to a wrong turn with; set failing to 0"
        )
    if not tasks:
        raise ConfigError("demonstrations need at least one task")
    return _play_all(suite, prompter, tasks, settings, seed, len(tasks) if limit is None else limit)


def _play_all(
    suite: EnvSuite,
    prompter: Prompter,
    tasks: Sequence[Task],
    settings: DemonstrationSettings,
    seed: int,
    limit: int,
) -> Iterator[Episode]:
    streams = Streams(seed)
    env = suite.make()
    try:
        for number in islice(count(), limit):
            task = tasks[number % len(tasks)]
            rng = streams.rng("demonstration", number)
            yield from _demonstration(env, prompter, task, settings, rng, number, suite.max_turns)
    finally:
        env.close()


def _demonstration(
    env: Env,
    prompter: Prompter,
    task: Task,
    settings: DemonstrationSettings,
    rng: np.random.Generator,
    number: int,
    max_turns: int,
) -> Iterator[Episode]:
    """One attempt; if it was played badly and failed, its reflection and the attempt after it."""
    name = f"demo/{task.id}/{number}"
    bad = bool(settings.failing) and bool(rng.random() < settings.failing)
    first = Demonstrator(env, prompter, settings, rng, blunders=settings.blunders if bad else 0.0)
    episode = first.play(Episode(name, task, kind=EpisodeKind.DEMONSTRATION), max_turns)
    failed = episode.success is False and bool(episode.turns)
    if not (bad and failed):
        yield episode
        return
    episode.reflection = _reflect(episode, prompter, settings, rng)
    yield episode
    remark = episode.reflection.remark
    retry = Episode(
        f"{name}/a1", task, kind=EpisodeKind.DEMONSTRATION, attempt=Attempt(1, (remark,), chain=name)
    )
    turn = episode.reflection.pivot
    again = Demonstrator(env, prompter, settings, rng)
    if turn is not None:
        retry.forked_from = Fork(episode.id, turn)
        retry.turns = [replace(past, reused=True, hint=None, snapshot=None) for past in episode.turns[:turn]]
        again.play(
            retry, max_turns, snapshot=episode.turns[turn].snapshot, shown=episode.observation_at(turn)
        )
    else:
        again.play(retry, max_turns)
    if retry.new_turns:
        yield retry


def _reflect(
    episode: Episode, prompter: Prompter, settings: DemonstrationSettings, rng: np.random.Generator
) -> Reflection:
    """A reflection on a failed attempt: right in ``reflection_accuracy`` of cases, else about another turn."""
    turns = episode.turns
    wrong = [turn for turn in turns if turn.executed not in turn.gold_actions]
    pivot = wrong[0] if wrong else turns[-1]
    action = pivot.gold_actions[0]
    others = [turn for turn in turns if turn.index != pivot.index]
    if rng.random() >= settings.reflection_accuracy and others:
        pivot = others[int(rng.integers(len(others)))]
        better = [a for a in pivot.observation.admissible or () if a != pivot.executed]
        action = str(rng.choice(better)) if better else pivot.gold_actions[0]
    remark = correction_text(action, pivot.executed)
    asked = bool(rng.random() < settings.reflection_pivot)
    return Reflection(
        messages=reflection_messages(prompter, episode, pivot=asked),
        response=reflection_reply(pivot.index if asked else None, remark),
        pivot=pivot.index if asked else None,
        remark=remark,
        valid=True,
    )
