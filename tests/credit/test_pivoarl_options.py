"""All options of ``pivoarl_advantages`` against an independent, slow implementation: 1,000 random cases each way."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from turnpoint.credit import Chain, group_advantages, lamer_reflection_returns, pivoarl_advantages

from . import pivoarl_reference as plain
from . import reference as slow

BASELINES, NORMALISERS = ("attempts", "rows", "chain"), ("mean", "mean_std")
TOLERANCE = {"atol": 1e-8, "rtol": 1e-9}


def random_chains(rng: np.random.Generator) -> list[plain.Attempts]:
    """Up to four chains of two tasks; few states and rewards, so that rows really are compared."""
    chains = []
    for _ in range(rng.integers(1, 5)):
        lengths = rng.integers(1, 5, size=rng.integers(1, 4)).tolist()
        pivots = [None if rng.random() < 0.2 else int(rng.integers(0, length)) for length in lengths[:-1]]
        fined = rng.random() < 0.5
        chains.append(
            plain.Attempts(
                int(rng.integers(0, 2)),
                [rng.choice([0.0, 0.5, 1.0, -0.25], size=length).tolist() for length in lengths],
                pivots,
                [rng.integers(0, 3, size=length).tolist() for length in lengths],
                [(rng.choice([0.0, 0.5], size=length) * fined).tolist() for length in lengths],
            )
        )
    return chains


def random_options(rng: np.random.Generator, normalise: str, baseline: str, *, lamer: bool) -> plain.Options:
    return plain.Options(
        gamma_step=float(rng.choice([0.0, 0.5, 0.95, 1.0])),
        gamma_traj=float(rng.choice([0.0, 0.6, 1.0])),
        normalise=normalise,
        baseline=baseline,
        omega=float(rng.choice([0.0, 0.5, 1.0])),
        episode_weight=float(rng.choice([0.0, 0.5, 1.0])),
        isolation=bool(rng.integers(0, 2)),
        successor="start" if lamer else str(rng.choice(["start", "pivot"])),
        lamer=lamer,
    )


def measured(chains: list[plain.Attempts], o: plain.Options) -> list[list[np.ndarray]]:
    given = [Chain(c.task, c.rewards, c.pivots, c.anchors, c.penalties) for c in chains]
    return pivoarl_advantages(
        given,
        o.gamma_step,
        o.gamma_traj,
        normalise=o.normalise,
        baseline=o.baseline,
        omega=o.omega,
        episode_weight=o.episode_weight,
        isolation=o.isolation,
        successor=o.successor,
        carry="lamer" if o.lamer else "trajectory",
    )


@pytest.mark.parametrize("lamer", [False, True], ids=["pivoarl", "lamer"])
def test_all_options_agree_with_the_plain_loops(lamer: bool) -> None:
    seen: Counter[tuple[object, ...]] = Counter()
    modes = itertools.cycle(itertools.product(NORMALISERS, BASELINES))
    for rng, (normalise, baseline) in zip(slow.cases(71 + lamer), modes, strict=False):
        chains = random_chains(rng)
        options = random_options(rng, normalise, baseline, lamer=lamer)
        expected = plain.advantages(chains, options)
        got = measured(chains, options)
        for chain, wanted in zip(got, expected, strict=True):
            for attempt, values in zip(chain, wanted, strict=True):
                np.testing.assert_allclose(
                    attempt, np.array(values), **TOLERANCE, err_msg=f"{options} {chains}"
                )
        if any(abs(v) > 0.01 for chain in expected for attempt in chain for v in attempt):
            seen[normalise, baseline, options.isolation, options.successor] += 1
    successors = ("start",) if lamer else ("start", "pivot")
    for mode in itertools.product(NORMALISERS, BASELINES, (True, False), successors):
        assert seen[mode] >= 20, f"{mode} was hardly tried: {seen}"


def test_every_option_changes_something() -> None:
    """What the comparison proves would be nothing if an option had no effect in either implementation."""
    differing: Counter[str] = Counter()
    for rng in itertools.islice(slow.cases(73), 100):
        chains = random_chains(rng)
        base = plain.Options(0.95, 0.6)
        for name, changed in {
            "baseline rows": plain.Options(0.95, 0.6, baseline="rows"),
            "baseline chain": plain.Options(0.95, 0.6, baseline="chain"),
            "normalise": plain.Options(0.95, 0.6, normalise="mean_std"),
            "isolation": plain.Options(0.95, 0.6, isolation=False),
            "successor": plain.Options(0.95, 0.6, successor="pivot"),
        }.items():
            one, other = (np.concatenate([*itertools.chain(*measured(chains, o))]) for o in (base, changed))
            differing[name] += not np.allclose(one, other)
    assert all(differing[name] >= 10 for name in ("baseline rows", "baseline chain", "normalise"))
    assert all(differing[name] >= 5 for name in ("isolation", "successor")), differing


def test_lamer_reflections_return_what_the_next_attempt_returns_from_its_start() -> None:
    for rng in slow.cases(74):
        chain = random_chains(rng)[0]
        options = random_options(rng, "mean", "attempts", lamer=True)
        expected = [plain.turn_return(chain, n, 0, options) for n in range(1, len(chain.rewards))]
        got = lamer_reflection_returns(chain.rewards, options.gamma_step, options.gamma_traj)
        np.testing.assert_allclose(got, expected, **TOLERANCE)
        if len(expected) > 1:
            relative = [plain.relative(value, [[v] for v in expected], "mean_std") for value in expected]
            np.testing.assert_allclose(
                group_advantages(got, [0] * len(expected), normalise="mean_std"), relative, atol=1e-6
            )
