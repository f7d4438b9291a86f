"""Chains of attempts as credit reads them, and their rows (PivoARL, MetaRL)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from turnpoint.credit import Chain, group_advantages, pivoarl_advantages, zero_variance_fraction
from turnpoint.methods.chain import RESTORE_MISMATCH, ChainSettings
from turnpoint.methods.parts import UNUSABLE, act_row, record_advantages
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Reflection, Row, RowKind, Turn, chains_of

Chains = Sequence[tuple[int, list[Episode]]]
"""(group index, usable attempts) of every chain of a step."""


def restart_turns(chain: Sequence[Episode]) -> list[int | None]:
    """Where each attempt but the first really started; None = full restart."""
    return [None if e.forked_from is None else e.forked_from.turn for e in chain[1:]]


def usable_chains(groups: Sequence[Group], tally: Tally) -> list[tuple[int, list[Episode]]]:
    """(group index, attempts) of every chain, cut before an attempt that met a fault.

    Its tokens are counted as dropped; so are those of the reflection before it, whose worth is unknown.
    """
    usable = []
    for number, group in enumerate(groups):
        for chain in chains_of(group.episodes):
            kept = next((n for n, episode in enumerate(chain) if episode.stop in UNUSABLE), len(chain))
            for episode in chain[kept:]:
                tally.add(f"dropped_episodes/{episode.stop}")
                tally.add(f"dropped_tokens/{episode.stop}", episode.generated_tokens)
            for episode in chain[max(kept - 1, 0) :]:
                if episode.reflection is not None:
                    tally.add("dropped_tokens/reflection_without_retry", len(episode.reflection.response_ids))
            if kept:
                usable.append((number, chain[:kept]))
    return usable


def count_chains(chains: Sequence[tuple[int, list[Episode]]], tally: Tally, attempts: int) -> None:
    """Metrics of a step: success within k attempts, how retries started and what reflections gave."""
    for _, chain in chains:
        for k in range(1, attempts + 1):
            tally.mean(f"success_at/{k}", float(any(episode.success for episode in chain[:k])))
        for last, retry in pairwise(chain):
            tally.mean("retry_ratio", len(retry.new_turns) / len(retry.turns) if retry.turns else 1.0)
            tally.mean("full_restarts", float(retry.forked_from is None))
            tally.add("restore_mismatches", float(RESTORE_MISMATCH in retry.info))
            if last.reflection is not None:
                tally.mean("reflections_valid", float(last.reflection.valid))
                tally.mean("reflections_truncated", float(last.reflection.truncated))
                if not last.reflection.response_ids:
                    tally.add("reflections_skipped/prompt_too_long")
            if retry.forked_from is not None:
                tally.mean("pivot", float(retry.forked_from.turn))


def anchor(turn: Turn, by: Literal["state", "observation"]) -> str:
    """What makes two turns comparable: the environment's state, or what the agent was shown of it.

    Without a state key it is always the observation; never remarks or history.
    """
    shown = turn.observation
    if by == "state" and shown.state_key is not None:
        return shown.state_key
    return "\x1f".join((shown.text, *(shown.admissible or ())))


def reflect_row(episode: Episode, reflection: Reflection, advantage: float) -> Row:
    """The row of a reflection, all its tokens with the same advantage."""
    return Row(
        prompt_ids=reflection.prompt_ids,
        response_ids=reflection.response_ids,
        old_logprobs=np.asarray(reflection.logprobs),
        advantages=np.full(len(reflection.response_ids), advantage),
        kind=RowKind.REFLECT,
        task=episode.task.id,
        episode=episode.id,
        attempt=episode.attempt.index,
        turn=len(episode.turns),
        valid=reflection.valid,
    )


def rewards(chain: Sequence[Episode]) -> list[np.ndarray]:
    """Rewards ``[T_n]`` of every attempt, reused turns included."""
    return [np.array([turn.reward for turn in episode.turns], dtype=np.float64) for episode in chain]


def solved(chain: Sequence[Episode]) -> list[bool]:
    """Whether each attempt solved the task."""
    return [bool(episode.success) for episode in chain]


def valid(chain: Sequence[Episode]) -> list[bool]:
    """Whether the reflection after each attempt but the last gave all it was asked for."""
    return [episode.reflection is not None and episode.reflection.valid for episode in chain[:-1]]


def credit_chain(
    task: int, chain: Sequence[Episode], pivots: Sequence[int | None], settings: ChainSettings
) -> Chain:
    """The chain as ``credit`` reads it."""
    penalty = settings.invalid_penalty
    return Chain(
        task=task,
        rewards=rewards(chain),
        pivots=list(pivots),
        anchors=[[anchor(turn, settings.anchor) for turn in episode.turns] for episode in chain],
        penalties=[[0.0 if turn.valid else penalty for turn in episode.turns] for episode in chain],
    )


def chain_advantages(
    chains: Sequence[Chain],
    settings: ChainSettings,
    *,
    isolation: bool = True,
    successor: str = "start",
    carry: str = "trajectory",
) -> list[list[np.ndarray]]:
    """``credit.pivoarl_advantages`` with what all chains have in their settings."""
    return pivoarl_advantages(
        chains,
        settings.gamma_step,
        settings.gamma_traj,
        normalise=settings.normalise,
        baseline=settings.baseline,
        omega=settings.omega,
        episode_weight=settings.episode_weight,
        isolation=isolation,
        successor=successor,
        carry=carry,
    )


def act_rows(chains: Chains, advantages: Sequence[Sequence[np.ndarray]], tally: Tally) -> list[Row]:
    """One row for each new turn, all its tokens with the turn's advantage."""
    pairs = [
        (turn, act_row(episode, turn, np.full(len(turn.response_ids), value)))
        for (_, chain), values in zip(chains, advantages, strict=True)
        for episode, attempt in zip(chain, values, strict=True)
        for turn, value in zip(episode.new_turns, attempt, strict=True)
    ]
    record_advantages(pairs)
    scores = [(number, episode.total_reward) for number, chain in chains for episode in chain]
    fraction = zero_variance_fraction([score for _, score in scores], [number for number, _ in scores])
    if scores:
        tally.mean("zero_variance_groups", fraction)
    return [row for _, row in pairs]


def reflection_rows(
    chains: Chains, returns: Sequence[np.ndarray], settings: ChainSettings, tally: Tally
) -> list[Row]:
    """Rows of all reflections that an attempt followed; ``returns`` (one array per chain) relative to the task's."""
    found = [
        (number, episode, episode.reflection, float(value))
        for (number, chain), values in zip(chains, returns, strict=True)
        for episode, value in zip(chain, values, strict=False)
        if episode.reflection is not None and episode.reflection.response_ids
    ]
    if settings.reflection != "trained":
        for _, _, reflection, _ in found:
            tally.add("dropped_tokens/reflection_untrained", len(reflection.response_ids))
        return []
    values = [value for *_, value in found]
    advantages = group_advantages(values, [number for number, *_ in found], normalise=settings.normalise)
    rows = []
    for (_, episode, reflection, value), advantage in zip(found, advantages, strict=True):
        reflection.scores["advantage"] = (float(advantage),) * len(reflection.response_ids)
        rows.append(reflect_row(episode, reflection, float(advantage)))
        tally.mean("reflection_return", value)
    if settings.attempts > 1 and not rows:
        tally.add("signal_empty/reflection")
    return rows
