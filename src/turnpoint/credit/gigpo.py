"""Advantages of the rows of whole batches: the episode level and GiGPO's two levels (arXiv 2505.10978)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, finite, finite_vector, keys, same_length
from turnpoint.credit.groups import group_advantages, step_advantages

IntArray = npt.NDArray[np.int64]


def episode_row_advantages(
    scores: npt.ArrayLike,
    groups: Iterable[Hashable],
    row_episode: Sequence[int] | IntArray,
    *,
    normalise: str = "mean",
    baseline: str = "episodes",
    penalties: npt.ArrayLike | None = None,
) -> FloatArray:
    """Episode advantage A^E of every row: ``(score - mean) / F`` within the episode's group.

    Args:
        scores: ``[E]`` undiscounted return of every episode.
        groups: ``[E]`` label of every episode, usually its task.
        row_episode: ``[B]`` index of the episode that each row belongs to.
        normalise: ``"mean"`` (F = 1) or ``"mean_std"`` (F = std + 1e-6).
        baseline: ``"episodes"`` counts every episode once; ``"rows"`` counts it once per row.
        penalties: ``[B]`` amounts subtracted from the score of that row only, before normalisation (invalid
            actions). With ``"episodes"`` the n rows of an episode then weigh 1/n each.

    Returns shape ``[B]``. Raises ValueError for lengths that differ, an index outside the episodes or a
    non-finite entry.
    """
    values = finite_vector(scores, "scores")
    labels = keys(groups, "groups")
    same_length("scores", values, "groups", labels)
    choice(baseline, "baseline", ("episodes", "rows"))
    owner = _owners(row_episode, values.size)
    if baseline == "episodes" and penalties is None:
        return group_advantages(values, labels, normalise=normalise)[owner]
    row_values = values[owner]
    if penalties is not None:
        row_values = row_values - _penalties(penalties, owner)
    if baseline == "rows":
        return group_advantages(row_values, [labels[e] for e in owner], normalise=normalise)
    # An episode without rows still counts once in the baseline: as one row that is dropped again.
    rows = np.bincount(owner, minlength=values.size)
    owner_or_idle = np.concatenate([owner, np.flatnonzero(rows == 0)])
    row_values = np.concatenate([row_values, values[rows == 0]])
    weights = 1.0 / np.maximum(rows, 1)[owner_or_idle]
    labels_or_idle = [labels[e] for e in owner_or_idle]
    return group_advantages(row_values, labels_or_idle, normalise=normalise, weights=weights)[: owner.size]


def gigpo_advantages(
    scores: npt.ArrayLike,
    groups: Iterable[Hashable],
    row_episode: Sequence[int] | IntArray,
    returns: npt.ArrayLike,
    anchors: Iterable[Hashable],
    *,
    normalise: str = "mean",
    baseline: str = "episodes",
    omega: float = 1.0,
    episode_weight: float = 1.0,
    penalties: npt.ArrayLike | None = None,
    episode_groups: Iterable[Hashable] | None = None,
) -> FloatArray:
    """GiGPO's two-level advantage ``A = A^E + omega * A^S`` of every row (arXiv 2505.10978).

    Args:
        scores: ``[E]`` undiscounted return of every episode.
        groups: ``[E]`` task of every episode; anchor states are compared within a task.
        row_episode: ``[B]`` index of the episode of each row.
        returns: ``[B]`` discounted return of each row.
        anchors: ``[B]`` state each row started from, ``None`` where unknown.
        normalise: ``"mean"`` or ``"mean_std"``, used at both levels.
        baseline: ``"episodes"`` or ``"rows"``, see :func:`episode_row_advantages`.
        omega: weight of the step level.
        episode_weight: weight of the episode level.
        penalties: ``[B]`` subtracted from the row's score and from its return before normalisation.
        episode_groups: ``[E]`` other labels for the episode level only (PivoARL per chain), default
            ``groups``.

    Returns shape ``[B]``.
    """
    tasks = keys(groups, "groups")
    outer = tasks if episode_groups is None else keys(episode_groups, "episode_groups")
    same_length("groups", tasks, "episode_groups", outer)
    episode = episode_row_advantages(
        scores, outer, row_episode, normalise=normalise, baseline=baseline, penalties=penalties
    )
    owner = _owners(row_episode, len(tasks))
    row_returns = finite_vector(returns, "returns")
    same_length("returns", row_returns, "row_episode", owner)
    if penalties is not None:
        row_returns = row_returns - _penalties(penalties, owner)
    step = step_advantages(row_returns, anchors, normalise=normalise, groups=[tasks[e] for e in owner])
    return finite(episode_weight, "episode_weight") * episode + finite(omega, "omega") * step


def _owners(row_episode: Sequence[int] | IntArray, episodes: int) -> IntArray:
    owner = np.asarray(row_episode)
    if owner.size == 0:
        return np.zeros(0, dtype=np.int64)
    if owner.ndim != 1 or not np.issubdtype(owner.dtype, np.integer):
        raise ValueError(
            f"row_episode must be a vector of integers, got {owner.dtype} of shape {owner.shape}"
        )
    bad = np.flatnonzero((owner < 0) | (owner >= episodes))
    if bad.size:
        raise ValueError(
            f"row_episode[{bad[0]}] is {owner[bad[0]]} but there are {episodes} episodes (0..{episodes - 1})"
        )
    return owner.astype(np.int64)


def _penalties(penalties: npt.ArrayLike, owner: IntArray) -> FloatArray:
    values = finite_vector(penalties, "penalties")
    same_length("penalties", values, "row_episode", owner)
    return values
