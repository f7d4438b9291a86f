"""States as teachers see them, and what their actions mean there."""

from __future__ import annotations

from turnpoint.prompts import resolve_action
from turnpoint.records import Episode, Observation
from turnpoint.rollouts import Branch
from turnpoint.teachers.protocol import Situation


def resolve(action: str | None, observation: Observation) -> str | None:
    """The admissible action that ``action`` means there; verbatim where actions cannot be listed."""
    if observation.admissible is None:
        return action.strip() or None if action else None
    return resolve_action(action, observation.admissible).action


def situation(episode: Episode, turn: int) -> Situation:
    """What a teacher is asked about: the state before ``turn`` of a recorded episode."""
    return Situation(
        task=episode.task,
        turns=episode.turns[:turn],
        observation=episode.turns[turn].observation,
        snapshot=episode.turns[turn].snapshot,
        episode=episode,
        turn=turn,
    )


def branch_situation(branch: Branch) -> Situation:
    """The present state of a recovery branch."""
    return Situation(
        task=branch.episode.task,
        turns=branch.turns,
        observation=branch.observation,
        snapshot=branch.snapshot,
        episode=None,
        turn=len(branch.turns),
    )
