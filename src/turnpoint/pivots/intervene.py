"""Taking over from a recorded state: turns by an oracle, by hand, by a hinted or a plain policy; then forks from there.

``prepare`` brings the state back once, verified, and plays the given turns; the result is an episode whose end can be
forked as often as wanted (``Start(prepared, len(prepared.turns))``), from a snapshot where the environment has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnpoint.envs import Knowledge
from turnpoint.records import Episode, EpisodeKind, Fork, RecordError, StopReason, Turn
from turnpoint.rollouts import EnvCopy, Rollouts
from turnpoint.rollouts.ending import FAULTS, end_episode, end_with_fault


@dataclass(frozen=True, slots=True)
class OracleTurn:
    """The oracle's first best action; the policy's own turn where the oracle knows none."""

    knowledge: Knowledge = "full"


@dataclass(frozen=True, slots=True)
class TypedTurn:
    """An action given as text."""

    action: str


@dataclass(frozen=True, slots=True)
class HintedTurn:
    """The policy's turn under a hint that names ``action``, in the prompt's own wording."""

    action: str


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """The policy's turn."""


TakenTurn = OracleTurn | TypedTurn | HintedTurn | OwnTurn


async def prepare(
    rollouts: Rollouts, parent: Episode, turn: int, taken: Sequence[TakenTurn] = (), *, name: str = "prepared"
) -> Episode:
    """The state before ``turn`` of ``parent`` (``len(turns)``: after the last) with ``taken`` played on from it.

    ``stop`` is None if the episode goes on; otherwise it ended on the way, with a fault where the state could not be
    brought back. Raises ``RecordError`` for a turn that the episode does not have, and for an oracle's turn where
    there is no oracle.
    """
    if any(isinstance(one, OracleTurn) for one in taken):
        require_oracle(rollouts)
    if not 0 <= turn <= len(parent.turns):
        raise RecordError(
            f"episode {parent.id} has {len(parent.turns)} turns; there is no state before turn {turn}"
        )
    episode = Episode(
        id=f"{parent.id}/{name}",
        task=parent.task,
        kind=EpisodeKind.REPLAY,
        forked_from=Fork(parent.id, turn),
        attempt=replace(parent.attempt, chain=""),
        step=parent.step,
        distances_known=rollouts.measure and (parent.distances_known or turn == 0),
        turns=[replace(t, reused=True) for t in parent.turns[:turn]],
    )
    try:
        async with rollouts.place(), rollouts.envs.lend() as env:
            episode.final_observation = await env.restore(parent, turn)
            await _keep(rollouts, env, episode)
            if turn and parent.turns[turn - 1].done:
                end_episode(episode, parent.stop or StopReason.FAILURE, success=parent.success)
            for one in taken:
                if episode.stop is None:
                    await _take(rollouts, env, episode, one)
    except FAULTS as fault:
        end_with_fault(episode, fault)
    finally:
        rollouts.policy.end_session(episode.id)
    return episode


def require_oracle(rollouts: Rollouts) -> None:
    """Raise ``RecordError`` if no oracle can take turns."""
    if not rollouts.suite.capabilities.oracle:
        raise RecordError(
            f"environment '{rollouts.suite.name}' has no oracle to take turns; leave the oracle's turns out"
        )


async def _take(rollouts: Rollouts, env: EnvCopy, episode: Episode, taken: TakenTurn) -> None:
    """Play one turn in the environment, onto the record."""
    if len(episode.turns) >= rollouts.max_turns:
        return end_episode(episode, StopReason.MAX_TURNS, success=False)
    turn = await _speak(rollouts, env, episode, taken)
    if rollouts.measure:
        turn.distance = await env.call(env.env.distance)
    episode.turns.append(turn)
    step = await env.execute(turn)
    episode.final_observation = step.observation
    await _keep(rollouts, env, episode)
    if step.done:
        reason = StopReason.SUCCESS if step.success else StopReason.FAILURE
        end_episode(episode, reason, success=bool(step.success))
    elif len(episode.turns) >= rollouts.max_turns:
        end_episode(episode, StopReason.MAX_TURNS, success=False)


async def _speak(rollouts: Rollouts, env: EnvCopy, episode: Episode, taken: TakenTurn) -> Turn:
    observation = episode.final_observation
    assert observation is not None
    if isinstance(taken, OracleTurn):
        best = await env.call(env.env.best_actions, taken.knowledge)
        if best:
            return replace(_written(rollouts, episode, best[0]), gold_actions=tuple(best))
        taken = OwnTurn()
    if isinstance(taken, TypedTurn):
        return _written(rollouts, episode, taken.action)
    hint = rollouts.prompter.hint_text(taken.action) if isinstance(taken, HintedTurn) else None
    turn = await rollouts.turns.respond(episode, observation, hint=hint)
    rollouts.turns.sampled_tokens += len(turn.response_ids)
    return turn


def _written(rollouts: Rollouts, episode: Episode, action: str) -> Turn:
    """A turn that no model sampled: it has a text and no tokens."""
    observation, prompter = episode.final_observation, rollouts.prompter
    assert observation is not None
    messages = prompter.messages(episode.task, episode.turns, observation, remarks=episode.attempt.remarks)
    return Turn(
        index=len(episode.turns),
        observation=observation,
        messages=tuple(messages),
        response=prompter.reply(action),
        action=action,
        executed=action,
    )


async def _keep(rollouts: Rollouts, env: EnvCopy, episode: Episode) -> None:
    episode.final_snapshot = await env.snapshot()
    if rollouts.measure:
        episode.final_distance = await env.call(env.env.distance)


def adopt(played: Episode, prepared: Episode) -> Episode:
    """Make an episode played on from ``prepared`` a branch of the recorded parent: the turns taken are its own."""
    assert prepared.forked_from is not None
    first = prepared.forked_from.turn
    played.forked_from = prepared.forked_from
    played.attempt = prepared.attempt
    played.step = prepared.step
    for turn in played.turns[first:]:
        turn.reused = False
    return played


__all__ = [
    "HintedTurn",
    "OracleTurn",
    "OwnTurn",
    "TakenTurn",
    "TypedTurn",
    "adopt",
    "prepare",
    "require_oracle",
]
