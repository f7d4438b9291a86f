"""PivoARL's and LaMer's advantages, row by row and with plain loops, as their papers define them.

Slow on purpose, and written without a look at ``turnpoint.credit``: every sum runs over explicitly listed peers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EPSILON = 1e-6
Returns = dict[tuple[int, int, int], float]
"""Return less penalty of every row, by chain, attempt and turn."""


@dataclass(frozen=True)
class Attempts:
    """A chain: rewards, anchors and penalties of every turn of every attempt; pivots between the attempts."""

    task: int
    rewards: list[list[float]]
    pivots: list[int | None]
    anchors: list[list[int]]
    penalties: list[list[float]]


@dataclass(frozen=True)
class Options:
    gamma_step: float
    gamma_traj: float
    normalise: str = "mean"
    baseline: str = "attempts"
    omega: float = 1.0
    episode_weight: float = 1.0
    isolation: bool = True
    successor: str = "start"
    lamer: bool = False


def turn_return(chain: Attempts, n: int, t: int, o: Options) -> float:
    """Eqs. 6 and 7 by recursion over the attempts; LaMer's discounts cross the boundary after the last turn."""
    rewards = chain.rewards[n]
    total = 0.0
    for later in range(t, len(rewards)):
        total += o.gamma_step ** (later - t) * rewards[later]
    if n + 1 == len(chain.rewards):
        return total
    if o.lamer:
        last = len(rewards) - 1
        return total + o.gamma_step ** (last - t) * o.gamma_traj * turn_return(chain, n + 1, 0, o)
    k = chain.pivots[n] or 0
    if o.isolation and t >= k:
        return total
    entry = k if o.successor == "pivot" else 0
    if entry >= len(chain.rewards[n + 1]):
        return total
    return total + o.gamma_traj * turn_return(chain, n + 1, entry, o)


def new_rows(chain: Attempts, n: int, o: Options) -> list[int]:
    """Turns that attempt ``n`` really generated."""
    reused = 0 if n == 0 or o.lamer else chain.pivots[n - 1] or 0
    return [t for t in range(len(chain.rewards[n])) if t >= reused]


def relative(value: float, peers: Sequence[Sequence[float]], normalise: str) -> float:
    """(value - mean) / F over ``peers``, each of which counts once, whatever the number of its values."""
    if len(peers) < 2:
        return 0.0
    mean = sum(sum(values) / len(values) for values in peers) / len(peers)
    if normalise == "mean":
        return value - mean
    spread = sum(sum((v - mean) ** 2 for v in values) / len(values) for values in peers)
    return (value - mean) / (math.sqrt(spread / (len(peers) - 1)) + EPSILON)


def scores_of(chain: Attempts, n: int, o: Options) -> list[float]:
    """Undiscounted sum less the penalty, for each row; an attempt without rows is there once, unpunished."""
    score = sum(chain.rewards[n])
    return [score - chain.penalties[n][t] for t in new_rows(chain, n, o)] or [score]


def episode_level(chains: Sequence[Attempts], at: int, n: int, t: int, o: Options) -> float:
    """A^E of one row."""
    chain = chains[at]
    peers: list[list[float]] = []
    for index, other in enumerate(chains):
        if other.task != chain.task or (o.baseline == "chain" and index != at):
            continue
        for m in range(len(other.rewards)):
            if o.baseline == "rows":
                peers += [[value] for value in scores_of(other, m, o)[: len(new_rows(other, m, o))]]
            else:
                peers.append(scores_of(other, m, o))
    return relative(sum(chain.rewards[n]) - chain.penalties[n][t], peers, o.normalise)


def step_level(chains: Sequence[Attempts], at: int, n: int, t: int, returns: Returns, o: Options) -> float:
    """A^S of one row: the returns of rows of the task that start from the same state."""
    task, state = chains[at].task, chains[at].anchors[n][t]
    peers = [
        [value]
        for (index, m, u), value in returns.items()
        if chains[index].task == task and chains[index].anchors[m][u] == state
    ]
    return relative(returns[at, n, t], peers, o.normalise)


def advantages(chains: Sequence[Attempts], o: Options) -> list[list[list[float]]]:
    """A = episode_weight * A^E + omega * A^S of every row, by chain and attempt."""
    returns = {
        (at, n, t): turn_return(chain, n, t, o) - chain.penalties[n][t]
        for at, chain in enumerate(chains)
        for n in range(len(chain.rewards))
        for t in new_rows(chain, n, o)
    }
    return [
        [
            [
                o.episode_weight * episode_level(chains, at, n, t, o)
                + o.omega * step_level(chains, at, n, t, returns, o)
                for t in new_rows(chain, n, o)
            ]
            for n in range(len(chain.rewards))
        ]
        for at, chain in enumerate(chains)
    ]
