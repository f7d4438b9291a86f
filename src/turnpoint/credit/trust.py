"""How far a naming teacher is trusted, and how strongly and how deep recovery is trained. Goes beyond the papers.

Everything here is a pure function of counts and names: votes over several answers to one question, the share of right
names with its uncertainty, the weight of the recovery term at a given strength, and how many turns a recovery takes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from turnpoint.credit._checks import FloatArray, finite, positive

_Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def agreement(answers: Sequence[Sequence[tuple[int, str]]]) -> dict[int, tuple[str, float]]:
    """For every turn that some answer names: the action named most often there, and the share of all answers with it.

    ``answers`` holds one sequence of (turn, action) pairs for each time the teacher was asked, empty where it failed
    or named nothing; of a turn named twice in one answer the first action counts. Equal votes go to the action seen
    first. Turns come by falling share, then in the order in which they were first seen.

    Worked numbers: ``[[(3, a)], [(3, a), (5, c)], [(3, b)], [], [(3, a)]]`` gives ``{3: (a, .6), 5: (c, .2)}``.
    """
    votes: dict[int, Counter[str]] = {}
    for answer in answers:
        named: dict[int, str] = {}
        for turn, action in answer:
            named.setdefault(turn, action)
        for turn, action in named.items():
            votes.setdefault(turn, Counter())[action] += 1
    leading = {turn: max(counts, key=lambda action: counts[action]) for turn, counts in votes.items()}
    order = sorted(votes, key=lambda turn: -votes[turn][leading[turn]])
    return {turn: (leading[turn], votes[turn][leading[turn]] / len(answers)) for turn in order}


def posterior_share(right: float, judged: float, prior: tuple[float, float] = (1.0, 1.0)) -> float:
    """Mean of the Beta posterior of a share: ``(a + right) / (a + b + judged)``.

    Counts may be fractions (old ones fade). Raises ``ValueError`` for counts that cannot be, or a prior not above 0.

    Worked numbers: 8 of 10 with the uniform prior (1, 1) give 9/12 = .75; nothing judged gives .5.
    """
    _counts(right, judged)
    a, b = positive(prior[0], "prior[0]"), positive(prior[1], "prior[1]")
    return (a + right) / (a + b + judged)


def wilson_interval(right: float, judged: float, z: float = _Z95) -> tuple[float, float]:
    """Wilson's interval of a share, 95 % by default; (0, 1) where nothing was judged.

    ``(p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)`` with p = right / judged, n = judged.

    Worked numbers: 8 of 10 give (.490, .943), 0 of 10 (0, .278).
    """
    _counts(right, judged)
    if judged == 0:
        return 0.0, 1.0
    share, scale = right / judged, 1 + z * z / judged
    middle = share + z * z / (2 * judged)
    reach = z * math.sqrt(max(0.0, share * (1 - share)) / judged + z * z / (4 * judged * judged))
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def recovery_weight(
    preventive: float, recovery_tokens: float, ratio: float, *, w_rec: float, limit: float
) -> float:
    """The weight of the recovery term at which it weighs ``ratio`` times the preventive one, whatever its tokens.

    The gradient weight of a term is the sum over its tokens of the weight each of them has. With
    G_prev = Σ w_prev · u_i · n_i over preventive turns (n_i tokens, trust u_i) and N_rec = Σ u_j · n_j over recovery
    turns, ``w = ratio · G_prev / N_rec``, so that w · N_rec / G_prev = ratio for any K and any length of turns; cut to
    ``[w_rec / limit, w_rec · limit]``.

    Args:
        preventive: G_prev, 0 or more.
        recovery_tokens: N_rec, above 0.
        ratio: wanted G_rec / G_prev, above 0.
        w_rec: the weight as configured, above 0; only the limits depend on it.
        limit: 1 or more.

    Worked numbers: w_prev .001 on turns of 30, 50, 40 tokens is G_prev = .12. At ratio 1,000, three branches with turns
    of 40 tokens get w = 120/120 = 1 with K = 1 and 120/240 = .5 with K = 2: 120 in all either way.
    """
    bound = positive(limit, "limit")
    if bound < 1:
        raise ValueError(f"limit is {limit}; the weight itself would lie outside it: set 1 or more")
    base = positive(w_rec, "w_rec")
    wanted = positive(ratio, "ratio") * finite(preventive, "preventive") / positive(recovery_tokens, "tokens")
    return min(max(wanted, base / bound), base * bound)


def recovered_within(branches: Sequence[tuple[int, bool]]) -> FloatArray:
    """Share recovered within 1..D turns, ``[D]``, with branches that were cut short (Kaplan and Meier, 1958).

    Each branch is (turns, recovered): it was recovered after so many turns, or had not been when it ended there. D is
    the longest recovery seen; ``F(d) = 1 − Π_{j ≤ d} (1 − e_j / n_j)`` with e_j recovered in turn j of the n_j branches
    that got so far. Branches shorter than one turn say nothing.

    Worked numbers: recovered after 1, 1, 1, 2, 2 and cut after 1, 2, 2 gives n = 8, 4 and F = [.375, .6875].
    """
    longest = max((turns for turns, recovered in branches if recovered), default=0)
    survival, shares = 1.0, []
    for depth in range(1, longest + 1):
        reached = sum(turns >= depth for turns, _ in branches)
        survival *= 1 - sum(recovered and turns == depth for turns, recovered in branches) / reached
        shares.append(1 - survival)
    return np.array(shares, dtype=np.float64)


def turns_to_recover(branches: Sequence[tuple[int, bool]], quantile: float) -> int | None:
    """Fewest turns within which a share of at least ``quantile`` recovers; None if no depth seen reaches it.

    Worked numbers: with the branches of ``recovered_within`` 2 turns at .5, 1 at .3, None at .8.
    """
    enough = np.flatnonzero(recovered_within(branches) >= quantile - 1e-12)
    return int(enough[0]) + 1 if enough.size else None


def _counts(right: float, judged: float) -> None:
    if not 0 <= right <= judged:
        raise ValueError(f"{right} of {judged} is no share; right names are among the judged ones")
