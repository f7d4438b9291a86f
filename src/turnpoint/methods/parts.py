"""Steps that many methods share: playing groups, episode-level advantages, plain rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from turnpoint.credit import episode_row_advantages, zero_variance_fraction
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, RowKind, StopReason, Task, Turn
from turnpoint.rollouts import AfterTurn, Rollouts

UNUSABLE = frozenset({StopReason.ENV_ERROR, StopReason.TIME_OUT, StopReason.RESTORE_MISMATCH})
"""Episodes that ended by a fault: their return means nothing, so they train nothing and are counted."""


_UNJUDGED = frozenset({StopReason.OUT_OF_SUPPORT, StopReason.DEPTH_CAP})
"""Episodes that a rule of the method ended: nobody knows how they would have ended."""


async def play_groups(
    tasks: Sequence[Task], rollouts: Rollouts, size: int, after_turn: AfterTurn | None = None
) -> list[Group]:
    """``size`` independent episodes of every task, all at once; ``after_turn`` may stop them early."""
    episodes = await asyncio.gather(
        *(rollouts.play(task, i, after_turn=after_turn) for task in tasks for i in range(size))
    )
    return [Group(task, list(episodes[n * size : (n + 1) * size])) for n, task in enumerate(tasks)]


def start_failed(episode: Episode) -> bool:
    """Whether an episode that was to begin with reused turns has none, because their state did not come back."""
    return not episode.turns and episode.stop in (StopReason.RESTORE_MISMATCH, StopReason.ENV_ERROR)


def usable_episodes(groups: Sequence[Group], tally: Tally) -> list[tuple[int, Episode]]:
    """(group index, episode) of every episode with a meaningful return; the others are counted with their tokens."""
    usable = []
    for number, group in enumerate(groups):
        for episode in group.episodes:
            if episode.stop in UNUSABLE:
                tally.add(f"dropped_episodes/{episode.stop}")
                tally.add(f"dropped_tokens/{episode.stop}", episode.generated_tokens)
            else:
                usable.append((number, episode))
    return usable


def outcome_rows(
    groups: Sequence[Group],
    tally: Tally,
    *,
    normalise: str,
    baseline: str,
    invalid_penalty: float,
    keep_unjudged: bool = False,
) -> list[tuple[Turn, Row]]:
    """Rows of all new turns with the group-relative outcome advantage on every token.

    A = (R - mean) / F within the task's group, R the undiscounted return of the episode, less
    ``invalid_penalty`` on the rows of turns without a parsable action. Episodes that a rule stopped early have no
    outcome: they are in no baseline, and their rows have A = 0 (``keep_unjudged``) or are dropped and counted.
    """
    everyone = usable_episodes(groups, tally)
    usable = [(number, episode) for number, episode in everyone if episode.stop not in _UNJUDGED]
    unjudged = [episode for _, episode in everyone if episode.stop in _UNJUDGED]
    pairs = _judged_rows(usable, tally, normalise, baseline, invalid_penalty)
    if keep_unjudged:
        spare = [(episode, turn) for episode in unjudged for turn in episode.new_turns]
        return pairs + [(turn, act_row(e, turn, np.zeros(len(turn.response_ids)))) for e, turn in spare]
    for episode in unjudged:
        tally.add(f"dropped_tokens/{episode.stop}", episode.generated_tokens)
    return pairs


def _judged_rows(
    usable: Sequence[tuple[int, Episode]], tally: Tally, normalise: str, baseline: str, invalid_penalty: float
) -> list[tuple[Turn, Row]]:
    turns = [(owner, turn) for owner, (_, episode) in enumerate(usable) for turn in episode.new_turns]
    if not turns:
        return []
    scores = [episode.total_reward for _, episode in usable]
    tasks = [number for number, _ in usable]
    penalties = [0.0 if turn.valid else invalid_penalty for _, turn in turns] if invalid_penalty else None
    advantages = episode_row_advantages(
        scores,
        tasks,
        [owner for owner, _ in turns],
        normalise=normalise,
        baseline=baseline,
        penalties=penalties,
    )
    tally.mean("zero_variance_groups", zero_variance_fraction(scores, tasks))
    return [
        (turn, act_row(usable[owner][1], turn, np.full(len(turn.response_ids), advantage)))
        for (owner, turn), advantage in zip(turns, advantages, strict=True)
    ]


def act_row(episode: Episode, turn: Turn, advantages: np.ndarray, *, length: int | None = None) -> Row:
    """The row of an ordinary turn: trained under the very tokens it was sampled from.

    ``length``: only so many leading tokens of the response are trained (the caller counts the others).
    """
    return Row(
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids[:length],
        old_logprobs=np.asarray(turn.logprobs[:length]),
        advantages=advantages[:length],
        kind=RowKind.ACT,
        task=episode.task.id,
        episode=episode.id,
        attempt=episode.attempt.index,
        turn=turn.index,
        anchor=turn.observation.state_key,
        valid=turn.valid,
    )


def record_advantages(pairs: Sequence[tuple[Turn, Row]]) -> None:
    """Keep each row's advantages on its turn, where the inspector finds them."""
    for turn, row in pairs:
        turn.scores["advantage"] = tuple(float(value) for value in row.advantages)


class Stateless:
    """For methods that carry nothing from step to step."""

    def state_dict(self) -> dict[str, object]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Nothing to restore."""
