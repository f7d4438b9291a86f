"""Slow, plain-Python definitions that the credit functions are compared with.

They are written from the formulas in closed form: explicit sums and exact fractions.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction

import numpy as np

CASES = 1000


def cases(seed: int) -> Iterator[np.random.Generator]:
    """A thousand independent seeded generators."""
    for child in np.random.SeedSequence(seed).spawn(CASES):
        yield np.random.default_rng(child)


def discounted(rewards: Sequence[float], gamma: float) -> list[float]:
    return [
        math.fsum(gamma ** (later - turn) * rewards[later] for later in range(turn, len(rewards)))
        for turn in range(len(rewards))
    ]


def pivot_isolated(
    rewards: Sequence[Sequence[float]],
    pivots: Sequence[int | None],
    gamma_step: float,
    gamma_traj: float,
    isolation: bool,
    successor: str,
) -> list[list[float]]:
    """Eq. 7 unrolled: a later attempt m adds gamma_traj^(m-n) g^m if no boundary in between cuts it off."""
    total = len(rewards)
    k = [pivot or 0 for pivot in pivots[: total - 1]]
    source = [k[m - 1] if successor == "pivot" and m else 0 for m in range(total)]

    def start(m: int) -> float:
        values = discounted(rewards[m], gamma_step)
        return values[source[m]] if source[m] < len(values) else 0.0

    def open_path(n: int, turn: int, m: int) -> bool:
        if not isolation:
            # A source turn that was never reached carries nothing further either.
            return all(source[j] < len(rewards[j]) for j in range(n + 1, m))
        return turn < k[n] and all(source[j] < k[j] for j in range(n + 1, m))

    return [
        [
            own
            + math.fsum(
                gamma_traj ** (m - n) * start(m) for m in range(n + 1, total) if open_path(n, turn, m)
            )
            for turn, own in enumerate(discounted(rewards[n], gamma_step))
        ]
        for n in range(total)
    ]


def lamer(rewards: Sequence[Sequence[float]], gamma_step: float, gamma_traj: float) -> list[list[float]]:
    """One discounted sum over the joined attempts; crossing a boundary costs gamma_traj, not gamma_step."""

    def discount(n: int, turn: int, m: int, later: int) -> float:
        if m == n:
            return gamma_step ** (later - turn) if later >= turn else 0.0
        inner = sum(max(0, len(rewards[j]) - 1) for j in range(n + 1, m))
        return gamma_step ** (len(rewards[n]) - 1 - turn + inner + later) * gamma_traj ** (m - n)

    return [
        [
            math.fsum(
                discount(n, turn, m, later) * reward
                for m in range(n, len(rewards))
                for later, reward in enumerate(rewards[m])
            )
            for turn in range(len(rewards[n]))
        ]
        for n in range(len(rewards))
    ]


def reflections(
    rewards: Sequence[Sequence[float]],
    pivots: Sequence[int | None],
    success: Sequence[bool],
    gamma_step: float,
    valid: Sequence[bool],
) -> list[float]:
    result = []
    for n in range(len(rewards) - 1):
        pivot = pivots[n]
        if pivot is None or not valid[n] or not success[n + 1]:
            result.append(0.0)
        else:
            later = rewards[n + 1]
            result.append(math.fsum(gamma_step ** (i - pivot) * later[i] for i in range(pivot, len(later))))
    return result


def group(values: Sequence[float], labels: Sequence[Hashable], scale: bool) -> list[float]:
    """Mean and unbiased deviation from the standard library, which computes both exactly."""
    result = []
    for value, label in zip(values, labels, strict=True):
        peers = [v for v, other in zip(values, labels, strict=True) if other == label]
        if len(peers) == 1 or max(peers) == min(peers):
            result.append(0.0)
        else:
            centred = value - statistics.mean(peers)
            result.append(centred / (statistics.stdev(peers) + 1e-6) if scale else centred)
    return result


def penalised_episodes(
    scores: Sequence[float],
    labels: Sequence[Hashable],
    owner: Sequence[int],
    penalties: Sequence[float],
    scale: bool,
) -> list[float]:
    """Episode level with row penalties: mean of episode means; variance averaged within episodes."""
    rows: dict[int, list[float]] = {e: [] for e in range(len(scores))}
    for episode, penalty in zip(owner, penalties, strict=True):
        rows[episode].append(scores[episode] - penalty)
    for episode, values in rows.items():
        if not values:
            values.append(scores[episode])
    result = []
    for episode, penalty in zip(owner, penalties, strict=True):
        peers = [rows[e] for e in rows if labels[e] == labels[episode]]
        if len(peers) == 1:
            result.append(0.0)
            continue
        mean = statistics.fmean(statistics.fmean(values) for values in peers)
        value = scores[episode] - penalty - mean
        if scale:
            spread = [statistics.fmean((v - mean) ** 2 for v in values) for values in peers]
            value /= math.sqrt(sum(spread) / (len(peers) - 1)) + 1e-6
        result.append(value)
    return result


def clipped(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value


def sigmoid(value: float) -> float:
    return 0.5 * (1.0 + math.tanh(value / 2.0))


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def jsd(teacher: Sequence[float], student: Sequence[float], beta: float, tail: bool) -> float:
    """From probabilities, as a sum of p log(p/m)."""
    p, q = list(teacher), list(student)
    if tail:
        p.append(1.0 - sum(p))
        q.append(1.0 - sum(q))

    def kl(a: Sequence[float], b: Sequence[float]) -> float:
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    if beta == 0:
        return kl(p, q)
    if beta == 1:
        return kl(q, p)
    m = [beta * x + (1 - beta) * y for x, y in zip(p, q, strict=True)]
    return beta * kl(p, m) + (1 - beta) * kl(q, m)


def stop(scores: Sequence[Fraction | None], threshold: Fraction, reused: int) -> int | None:
    for turn in range(reused + 1, len(scores) + 1):
        if sum((s for s in scores[reused:turn] if s is not None), Fraction(0)) < threshold:
            return turn
    return None


def restart(scores: Sequence[float | None], floor: float | None, first: int) -> int | None:
    best: int | None = None
    for turn, score in enumerate(scores, start=1):
        if score is None or (floor is not None and score <= floor):
            break
        if turn > first and (best is None or score < scores[best - 1]):  # type: ignore[operator]
            best = turn
    return best


def agentopsd(
    advantage: float, differences: Sequence[float], mix: float, scale: float, clip: float
) -> list[float]:
    values = [0.5]
    for turn in range(1, len(differences) + 1):
        values.append(sigmoid(math.fsum(differences[:turn])))
    changes = [after - before for before, after in itertools.pairwise(values)]
    mean, std = statistics.fmean(changes), statistics.pstdev(changes)
    result = []
    for change in changes:
        z = (change - mean) / std if std > 1e-6 else 0.0
        m = clipped(1 + scale * sign(advantage) * z, 1 - clip, 1 + clip)
        result.append(advantage * ((1 - mix) + mix * m))
    return result


def finite_difference(
    function: Callable[[list[float]], float], point: Sequence[float], h: float = 1e-5
) -> list[float]:
    """Central differences of a scalar function."""
    slopes = []
    for i in range(len(point)):
        up, down = list(point), list(point)
        up[i] += h
        down[i] -= h
        slopes.append((function(up) - function(down)) / (2 * h))
    return slopes


def softmax(logits: Sequence[float]) -> list[float]:
    weights = [math.exp(z - max(logits)) for z in logits]
    return [w / sum(weights) for w in weights]
