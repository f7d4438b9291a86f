"""Chains of attempts: retries after reflections, as PivoARL and MetaRL play them.

What a chain did is read back from its records alone (``Episode.attempt``, ``forked_from``, ``reflection``), so
playing counts nothing and serves training and evaluation alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from turnpoint.methods.parts import start_failed
from turnpoint.methods.protocol import MethodSettings
from turnpoint.records import Attempt, Episode, Group, Task
from turnpoint.rollouts import Rollouts, Start, reflect

RESTORE_MISMATCH = "restore_mismatch"
"""Key of ``Episode.info``: why this full restart took the place of one from a pivot."""


Restart = Literal["pivot", "random", "full"]
"""Where the next attempt starts: at the turn the reflection names, at a random turn, at the beginning."""


@dataclass(frozen=True, slots=True)
class ChainRules:
    """How a chain goes on after a failed attempt."""

    restart: Restart
    reflects: bool = True
    """Ask for a reflection."""
    remarks: Literal["accumulate", "last"] = "accumulate"
    """Which remarks the next attempt is given."""
    reflection_tokens: int = 512
    """Longest reflection."""


class ChainSettings(MethodSettings):
    """What methods with chains of attempts have in common."""

    group: int = Field(default=8, ge=1)
    """Chains per task."""
    attempts: int = Field(default=3, ge=1)
    """N: most attempts in a chain; it stops at the first success."""
    gamma_step: float = Field(default=0.95, ge=0.0, le=1.0)
    """Discount between turns."""
    gamma_traj: float = Field(default=0.6, ge=0.0, le=1.0)
    """Discount of what a later attempt earned."""
    normalise: Literal["mean", "mean_std"] = "mean"
    """Subtract the mean, or also divide by the standard deviation, at all levels."""
    baseline: Literal["attempts", "rows", "chain"] = "attempts"
    """Episode level: every attempt of the task counts once, or once per row, or is compared within its chain."""
    omega: NonNegativeFloat = 1.0
    """Weight of the step level (equal anchor states)."""
    episode_weight: NonNegativeFloat = 1.0
    """Weight of the episode level."""
    anchor: Literal["state", "observation"] = "state"
    """Turns are compared if the environment's state is equal, or if the observation is."""
    remarks: Literal["accumulate", "last"] = "accumulate"
    """Give an attempt the remarks of all reflections before it, or the last one only."""
    reflection: Literal["trained", "untrained", "none"] = "trained"
    """Train reflections, use them untrained, or ask for none."""
    reflection_tokens: PositiveInt = 512
    """Longest reflection; one that is cut off is invalid."""
    invalid_penalty: NonNegativeFloat = 0.5
    """Subtracted from score and return of turns without a parsable action."""

    def rules(self, restart: Restart) -> ChainRules:
        """How chains of these settings go on."""
        return ChainRules(restart, self.reflection != "none", self.remarks, self.reflection_tokens)


async def play_chains(
    tasks: Sequence[Task], rollouts: Rollouts, rules: ChainRules, *, group: int, attempts: int
) -> list[Group]:
    """``group`` chains of every task, all at once."""
    chains = await asyncio.gather(
        *(play_chain(task, i, rollouts, rules, attempts) for task in tasks for i in range(group))
    )
    return [
        Group(task, [episode for chain in chains[n * group : (n + 1) * group] for episode in chain])
        for n, task in enumerate(tasks)
    ]


async def play_chain(
    task: Task, index: int, rollouts: Rollouts, rules: ChainRules, attempts: int
) -> list[Episode]:
    """At most ``attempts`` attempts at ``task``, up to the first success (PivoARL, Algorithm 1).

    A chain also ends with an attempt that met a fault or could not make a single turn.
    """
    chain = f"{rollouts.prefix}/{task.id}/{index}"
    episodes = [await rollouts.play(task, index, attempt=Attempt(chain=chain))]
    while len(episodes) < attempts and _failed(episodes[-1]):
        last = episodes[-1]
        if rules.reflects:
            last.reflection = await reflect(
                rollouts, last, pivot=rules.restart != "full", max_tokens=rules.reflection_tokens
            )
        attempt = Attempt(len(episodes), _remarks(last, rules), chain)
        episodes.append(await _retry(last, index, attempt, rollouts, _restart(last, rules, rollouts)))
    return episodes


def _failed(episode: Episode) -> bool:
    ended = episode.stop is not None and episode.stop.has_outcome
    return ended and not episode.success and bool(episode.turns)


def _remarks(last: Episode, rules: ChainRules) -> tuple[str, ...]:
    """Remarks for the attempt after ``last``; a reflection without one adds nothing."""
    new = (last.reflection.remark,) if last.reflection is not None and last.reflection.remark else ()
    if rules.remarks == "last":
        return new or last.attempt.remarks
    return last.attempt.remarks + new


def _restart(last: Episode, rules: ChainRules, rollouts: Rollouts) -> int | None:
    """Turn the next attempt starts from; None = full restart."""
    if rules.restart == "random":
        return int(rollouts.streams.rng("random_pivot", last.id).integers(len(last.turns)))
    if rules.restart == "pivot" and last.reflection is not None:
        return last.reflection.pivot
    return None


async def _retry(
    last: Episode, index: int, attempt: Attempt, rollouts: Rollouts, turn: int | None
) -> Episode:
    """The next attempt; a state that does not come back, or cannot be verified, is given up for a full restart."""
    name = f"a{attempt.index}"
    if turn is None:
        return await rollouts.play(last.task, index, attempt=attempt, name=name)
    episode = await rollouts.play(last.task, index, start=Start(last, turn), attempt=attempt, name=name)
    if not start_failed(episode):
        return episode
    again = await rollouts.play(last.task, index, attempt=attempt, name=f"{name}-full")
    again.info[RESTORE_MISMATCH] = episode.error
    return again
