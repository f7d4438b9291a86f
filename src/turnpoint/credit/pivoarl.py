"""PivoARL's advantages over chains of attempts (arXiv 2607.03702, Eqs. 6-7 and the two-level advantage)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from turnpoint.credit._checks import FloatArray, choice, count, finite_vector, same_length
from turnpoint.credit.gigpo import gigpo_advantages
from turnpoint.credit.returns import pivot_isolated_returns


@dataclass(frozen=True)
class Chain:
    """The attempts of one chain, as :func:`pivoarl_advantages` reads them.

    Attributes:
        task: label of the task; chains with the same label are compared.
        rewards: one array ``[T_n]`` per attempt, reused prefix included.
        pivots: restart turn after every attempt but the last, ``None`` for a full restart.
        anchors: one sequence ``[T_n]`` of environment states per attempt, without remark or history text.
        penalties: one array ``[T_n]`` per attempt, subtracted from that row's score and return; default none.
    """

    task: Hashable
    rewards: Sequence[npt.ArrayLike]
    pivots: Sequence[int | None]
    anchors: Sequence[Sequence[Hashable]]
    penalties: Sequence[npt.ArrayLike] | None = None


def new_turns(lengths: Sequence[int], pivots: Sequence[int | None]) -> list[range]:
    """Turns of every attempt that were newly generated, hence are rows: ``range(k^{n-1}, T_n)``.

    ``lengths`` are the turns of every attempt, reused prefix included; ``pivots`` has one entry per attempt
    but the last (or one per attempt; the last is not used). The reused prefix is trained once, where it was
    generated.
    """
    if len(pivots) not in (len(lengths) - 1, len(lengths)):
        raise ValueError(f"pivots has length {len(pivots)} but lengths has length {len(lengths)}")
    reused = [0]
    for n, pivot in enumerate(pivots[: len(lengths) - 1]):
        reused.append(0 if pivot is None else count(pivot, f"pivots[{n}]"))
    return [range(min(start, length), length) for start, length in zip(reused, lengths, strict=True)]


def pivoarl_advantages(
    chains: Sequence[Chain],
    gamma_step: float,
    gamma_traj: float,
    *,
    normalise: str = "mean",
    baseline: str = "attempts",
    omega: float = 1.0,
    episode_weight: float = 1.0,
    isolation: bool = True,
    successor: str = "start",
    carry: str = "trajectory",
) -> list[list[FloatArray]]:
    """PivoARL's advantage of every newly generated turn: ``A = A^E + omega * A^S`` on the returns of Eq. 7.

    A^E compares the undiscounted return of all attempts of all chains of a task; A^S compares Eq. 7 returns
    of rows that start from the same state. With one attempt per chain this is GiGPO.

    Args:
        chains: all chains of the batch, of any number of tasks.
        gamma_step, gamma_traj, isolation, successor, carry: see
            :func:`turnpoint.credit.pivot_isolated_returns`. With ``carry="lamer"`` every turn is new.
        normalise, omega, episode_weight: see :func:`turnpoint.credit.gigpo_advantages`.
        baseline: what A^E compares: ``"attempts"`` counts each attempt of the task once, ``"rows"`` weighs
            attempts by their rows, ``"chain"`` compares the attempts of one chain only.

    Returns one list per chain with one array per attempt, over the turns given by :func:`new_turns`.
    """
    choice(baseline, "baseline", ("attempts", "rows", "chain"))
    flat = _Flat()
    for index, chain in enumerate(chains):
        attempts = pivot_isolated_returns(
            chain.rewards,
            chain.pivots,
            gamma_step,
            gamma_traj,
            isolation=isolation,
            successor=successor,
            carry=carry,
        )
        pivots = chain.pivots if carry == "trajectory" else [None] * (len(attempts) - 1)
        _check_chain(chain, index, attempts)
        for n, turns in enumerate(new_turns([a.size for a in attempts], pivots)):
            flat.add(chain, index, n, turns, attempts[n])
    values = gigpo_advantages(
        flat.scores,
        flat.tasks,
        flat.owner,
        flat.returns,
        flat.anchors,
        normalise=normalise,
        baseline="rows" if baseline == "rows" else "episodes",
        omega=omega,
        episode_weight=episode_weight,
        penalties=flat.penalties if any(flat.penalties) else None,
        episode_groups=flat.chains if baseline == "chain" else None,
    )
    return flat.split(values, len(chains))


@dataclass
class _Flat:
    """Attempts (``scores``, ``tasks``, ``chains``, ``sizes``) and their rows (the rest), in order."""

    scores: list[float] = field(default_factory=list)
    tasks: list[Hashable] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    anchors: list[Hashable] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)

    def add(self, chain: Chain, index: int, n: int, turns: range, returns: FloatArray) -> None:
        """Append attempt ``n`` of chain ``index`` with its new turns."""
        self.owner += [len(self.scores)] * len(turns)
        self.returns += [float(returns[t]) for t in turns]
        self.anchors += [chain.anchors[n][t] for t in turns]
        penalty = np.zeros(returns.size) if chain.penalties is None else np.asarray(chain.penalties[n])
        self.penalties += [float(penalty[t]) for t in turns]
        self.scores.append(float(np.sum(np.asarray(chain.rewards[n], dtype=np.float64))))
        self.tasks.append(chain.task)
        self.chains.append(index)
        self.sizes.append(len(turns))

    def split(self, values: FloatArray, chains: int) -> list[list[FloatArray]]:
        """Cut row values into one array per attempt, in one list per chain."""
        result: list[list[FloatArray]] = [[] for _ in range(chains)]
        start = 0
        for index, size in zip(self.chains, self.sizes, strict=True):
            result[index].append(values[start : start + size])
            start += size
        return result


def _check_chain(chain: Chain, index: int, attempts: Sequence[FloatArray]) -> None:
    """Every attempt has one anchor (and one penalty) per turn."""
    where = f"chains[{index}]"
    same_length(f"{where}.anchors", chain.anchors, f"{where}.rewards", attempts)
    if chain.penalties is not None:
        same_length(f"{where}.penalties", chain.penalties, f"{where}.rewards", attempts)
    for n, returns in enumerate(attempts):
        same_length(f"{where}.anchors[{n}]", chain.anchors[n], f"{where}.rewards[{n}]", returns)
        if chain.penalties is not None:
            penalty = finite_vector(chain.penalties[n], f"{where}.penalties[{n}]")
            same_length(f"{where}.penalties[{n}]", penalty, f"{where}.rewards[{n}]", returns)
