"""Returns of attempts and of reflections (PivoARL, arXiv 2607.03702, Eqs. 6-8; LaMer, arXiv 2512.16848).

Indices: an attempt ``n`` has ``T_n`` turns ``t = 0..T_n-1``, reused prefix included. ``pivots[n]`` is the
0-based turn from which attempt ``n + 1`` was replayed. ``None`` stands for a full restart (no valid pivot)
and acts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, count, finite_vector, within

T = TypeVar("T")


def discounted_returns(rewards: npt.ArrayLike, gamma: float) -> FloatArray:
    """Discounted return of every turn: ``g_t = sum_{l >= t} gamma^(l-t) r_l`` (PivoARL Eq. 6).

    ``rewards`` has shape ``[T]`` (T may be 0), ``gamma`` lies in [0, 1]. Returns shape ``[T]``.
    Raises ValueError for a reward that is not finite, naming its index.
    """
    values = finite_vector(rewards, "rewards")
    discount = within(gamma, "gamma", 0.0, 1.0)
    result = np.zeros_like(values)
    running = 0.0
    for turn in range(values.size - 1, -1, -1):
        running = float(values[turn]) + discount * running
        result[turn] = running
    return result


def pivot_isolated_returns(
    rewards: Sequence[npt.ArrayLike],
    pivots: Sequence[int | None],
    gamma_step: float,
    gamma_traj: float,
    *,
    isolation: bool = True,
    successor: str = "start",
    carry: str = "trajectory",
) -> list[FloatArray]:
    """Returns of all attempts of one chain, with credit carried across attempts (PivoARL Eq. 7).

    ``G_t^n = g_t^n + gamma_traj * G_0^{n+1}`` for ``t < k^n`` and ``G_t^n = g_t^n`` from ``k^n`` on, computed
    backward over the attempts. So the replayed suffix never earns what a later attempt won.

    Args:
        rewards: one array ``[T_n]`` of turn rewards per attempt, the reused prefix included.
        pivots: one entry per attempt but the last (an entry for the last attempt, which has no successor,
            may be given and changes nothing). ``None`` or 0 breaks the credit chain.
        gamma_step: discount between turns, in [0, 1].
        gamma_traj: discount between attempts, in [0, 1].
        isolation: ``False`` credits every turn with the later attempts (the paper's ablation).
        successor: which return of the next attempt is carried: ``"start"`` (``G_0``) or ``"pivot"`` (``G_k``;
            0 when the next attempt ended before turn k).
        carry: ``"trajectory"`` for Eq. 7; ``"lamer"`` for MetaRL, where every attempt is a full restart and
            the running return crosses the boundary as ``r_last + gamma_traj * running`` before it is
            discounted by ``gamma_step``. Pivots and isolation play no part there.

    Returns a list of float64 arrays with the shapes of ``rewards``.
    Raises ValueError for a pivot that is not a turn of its attempt, a wrong number of pivots or a
    non-finite reward.
    """
    attempts = _attempts(rewards)
    starts = _restart_turns(attempts, pivots)
    choice(successor, "successor", ("start", "pivot"))
    within(gamma_traj, "gamma_traj", 0.0, 1.0)
    if choice(carry, "carry", ("trajectory", "lamer")) == "lamer":
        if successor != "start":
            raise ValueError(
                "successor='pivot' has no meaning with carry='lamer', whose attempts restart from the first "
                "turn; set successor='start'"
            )
        return _lamer_returns(attempts, gamma_step, gamma_traj)

    result: list[FloatArray] = []
    for n in range(len(attempts) - 1, -1, -1):
        returns = discounted_returns(attempts[n], gamma_step)
        if result:
            later, k = result[-1], starts[n]
            source = k if successor == "pivot" else 0
            carried = float(later[source]) if source < later.size else 0.0
            boundary = k if isolation else returns.size
            returns[:boundary] += gamma_traj * carried
        result.append(returns)
    return result[::-1]


def reflection_returns(
    rewards: Sequence[npt.ArrayLike],
    pivots: Sequence[int | None],
    success: Sequence[bool],
    gamma_step: float,
    valid: Sequence[bool] | None = None,
) -> FloatArray:
    """Return of the reflection after every attempt but the last (PivoARL Eq. 8).

    ``r_n = 1[attempt n+1 succeeds] * sum_{l >= k^n} gamma_step^(l-k^n) r_l^{n+1}``; 0 when the reflection was
    invalid, that is when its pivot is ``None`` or ``valid[n]`` is false (for example a missing remark).

    Args:
        rewards: one array ``[T_n]`` per attempt, reused prefix included; N attempts.
        pivots: N-1 entries (or N; the last is not used).
        success: N entries, whether each attempt solved the task.
        gamma_step: discount between turns, in [0, 1].
        valid: N-1 entries (or N), default all valid.

    Returns shape ``[N-1]``. A sum over no turns (the next attempt ended before turn k) is 0.
    """
    attempts = _attempts(rewards)
    starts = _restart_turns(attempts, pivots)
    total = len(attempts)
    if len(success) != total:
        raise ValueError(f"success has length {len(success)} but rewards has length {total}; they must match")
    flags = [True] * (total - 1) if valid is None else _per_reflection(valid, "valid", total)
    result = np.zeros(total - 1)
    for n in range(total - 1):
        if flags[n] and pivots[n] is not None and success[n + 1]:
            tail = discounted_returns(attempts[n + 1][starts[n] :], gamma_step)
            result[n] = tail[0] if tail.size else 0.0
    return result


def lamer_reflection_returns(
    rewards: Sequence[npt.ArrayLike], gamma_step: float, gamma_traj: float
) -> FloatArray:
    """Return of MetaRL's reflection rows (LaMer, arXiv 2512.16848): start return of the next attempt.

    ``rewards`` holds one array per attempt; returns shape ``[N-1]``. An attempt without turns has the
    return that crosses it.
    """
    running = [start for start, _ in _lamer_pass(_attempts(rewards), gamma_step, gamma_traj)]
    return np.asarray(running[1:], dtype=np.float64)


def _lamer_returns(attempts: list[FloatArray], gamma_step: float, gamma_traj: float) -> list[FloatArray]:
    return [returns for _, returns in _lamer_pass(attempts, gamma_step, gamma_traj)]


def _lamer_pass(
    attempts: list[FloatArray], gamma_step: float, gamma_traj: float
) -> list[tuple[float, FloatArray]]:
    """Backward pass over a chain of full restarts: (start return, returns ``[T_n]``) of every attempt."""
    within(gamma_traj, "gamma_traj", 0.0, 1.0)
    result: list[tuple[float, FloatArray]] = []
    running = 0.0
    for rewards in reversed(attempts):
        running = gamma_traj * running
        carried = rewards.copy()
        if carried.size:
            carried[-1] += running
        returns = discounted_returns(carried, gamma_step)
        running = float(returns[0]) if returns.size else running
        result.append((running, returns))
    return result[::-1]


def _attempts(rewards: Sequence[npt.ArrayLike]) -> list[FloatArray]:
    if len(rewards) == 0:
        raise ValueError("rewards is empty; a chain has at least one attempt")
    return [finite_vector(values, f"rewards[{n}]") for n, values in enumerate(rewards)]


def _restart_turns(attempts: list[FloatArray], pivots: Sequence[int | None]) -> list[int]:
    """Pivots of all attempts but the last, ``None`` as 0, each checked to be a turn of its attempt."""
    starts = []
    for n, pivot in enumerate(_per_reflection(pivots, "pivots", len(attempts))):
        turn = 0 if pivot is None else count(pivot, f"pivots[{n}]")
        if turn > 0 and turn >= attempts[n].size:
            raise ValueError(
                f"pivots[{n}] is {turn} but attempt {n} has {attempts[n].size} turns "
                f"(0..{attempts[n].size - 1}); set None for an invalid pivot, which is a full restart"
            )
        starts.append(turn)
    return starts


def _per_reflection(values: Sequence[T], name: str, attempts: int) -> list[T]:
    """One entry per attempt but the last; an entry for the last attempt is allowed and dropped."""
    if len(values) not in (attempts - 1, attempts):
        raise ValueError(
            f"{name} has length {len(values)} but rewards has length {attempts}; "
            f"give one entry per attempt but the last ({attempts - 1}), or one per attempt"
        )
    return list(values[: attempts - 1])
