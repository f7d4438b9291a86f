"""PivoARL's composed advantages over chains."""

from __future__ import annotations

import numpy as np
import pytest

from turnpoint.credit import (
    Chain,
    discounted_returns,
    gigpo_advantages,
    group_advantages,
    new_turns,
    pivoarl_advantages,
    pivot_isolated_returns,
    reflection_returns,
)

from . import reference as slow

A = Chain(
    "task",
    [np.zeros(3), np.zeros(3), np.array([0.0, 0, 0, 1])],
    [1, 2],
    [["s0", "s1", "x2"], ["s0", "s1", "u2"], ["s0", "s1", "u2", "v3"]],
)
B = Chain("task", [np.array([0.0, 1])], [], [["s0", "w1"]])


def check(result: list[list[np.ndarray]], expected: list[list[list[float]]]) -> None:
    for chain, wanted in zip(result, expected, strict=True):
        for got, want in zip(chain, wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_worked_chains() -> None:
    assert new_turns([3, 3, 4], [1, 2]) == [range(0, 3), range(1, 3), range(2, 4)]
    assert new_turns([3, 3, 4], [1, 2, 3]) == new_turns([3, 3, 4], [1, 2])
    assert new_turns([3, 1], [2]) == [range(0, 3), range(1, 1)]
    check(
        pivoarl_advantages([A, B], 0.9, 0.5),
        [[[-0.858875, -0.68225, -0.5], [-0.31775, -0.95], [0.95, 0.5]], [[0.858875, 0.5]]],
    )


def test_reflections_are_normalised_over_the_task() -> None:
    earned = reflection_returns(A.rewards, A.pivots, [False, False, True], 0.9)
    np.testing.assert_allclose(group_advantages(earned, ["task"] * 2), [-0.45, 0.45])
    assert group_advantages(earned[1:], ["task"]) == [0]


def test_baseline_per_chain_and_over_rows() -> None:
    level = {"omega": 0.0}
    check(
        pivoarl_advantages([A, B], 0.9, 0.5, baseline="chain", **level),
        [[[-1 / 3] * 3, [-1 / 3] * 2, [2 / 3] * 2], [[0, 0]]],
    )
    # Nine rows, four of them from the two attempts that succeed.
    check(
        pivoarl_advantages([A, B], 0.9, 0.5, baseline="rows", **level),
        [[[-4 / 9] * 3, [-4 / 9] * 2, [5 / 9] * 2], [[5 / 9] * 2]],
    )


def test_a_batch_where_everything_fails_has_no_gradient() -> None:
    failed = Chain("task", [np.zeros(3), np.zeros(2)], [1], [["a", "b", "c"], ["a", "d"]])
    assert not any(part.any() for chain in pivoarl_advantages([failed, failed], 0.9, 0.5) for part in chain)


def test_tasks_are_apart() -> None:
    other = Chain("other", B.rewards, B.pivots, B.anchors)
    alone = pivoarl_advantages([A], 0.9, 0.5)
    both = pivoarl_advantages([A, other], 0.9, 0.5)
    check(both, [alone[0], [np.zeros(2)]])  # type: ignore[list-item]


def test_lamer_chains_restart_in_full() -> None:
    result = pivoarl_advantages([A, B], 0.9, 0.5, carry="lamer")
    assert [part.size for part in result[0]] == [3, 3, 4]


def test_penalties_reach_score_and_return_of_their_row() -> None:
    plain = pivoarl_advantages([B, B], 0.9, 0.5)
    assert not any(part.any() for chain in plain for part in chain)
    fined = Chain("task", B.rewards, B.pivots, B.anchors, [np.array([0.0, 0.5])])
    result = pivoarl_advantages([fined, B], 0.9, 0.5)
    check(result, [[[0.125, -0.375 - 0.25]], [[0.125, 0.125 + 0.25]]])


def test_one_attempt_is_gigpo_bit_for_bit() -> None:
    for rng in list(slow.cases(4))[:200]:
        lengths = rng.integers(1, 5, size=rng.integers(1, 6))
        rewards = [rng.normal(size=n) for n in lengths]
        anchors = [[f"s{i}" for i in rng.integers(0, 3, size=n)] for n in lengths]
        tasks = rng.integers(0, 2, size=lengths.size).tolist()
        for normalise in ("mean", "mean_std"):
            chains = [Chain(k, [r], [], [a]) for k, r, a in zip(tasks, rewards, anchors, strict=True)]
            result = pivoarl_advantages(chains, 0.95, 0.6, normalise=normalise)
            expected = gigpo_advantages(
                [float(np.sum(r)) for r in rewards],
                tasks,
                np.repeat(np.arange(lengths.size), lengths),
                np.concatenate([discounted_returns(r, 0.95) for r in rewards]),
                [s for states in anchors for s in states],
                normalise=normalise,
            )
            np.testing.assert_array_equal(
                np.concatenate([part for chain in result for part in chain]), expected
            )


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(5):
        chains, scores, tasks, rows = [], [], [], []
        for _ in range(rng.integers(1, 4)):
            task, total = int(rng.integers(0, 2)), int(rng.integers(1, 4))
            rewards = [rng.choice([0.0, 1.0, 0.5], size=rng.integers(3, 6)) for _ in range(total)]
            pivots = [int(rng.integers(0, 3)) for _ in range(total - 1)]
            anchors = [rng.integers(0, 4, size=r.size).tolist() for r in rewards]
            chains.append(Chain(task, rewards, pivots, anchors))
            returns = slow.pivot_isolated(rewards, pivots, 0.9, 0.5, True, "start")
            fresh = [list(range(k, r.size)) for k, r in zip([0, *pivots], rewards, strict=True)]
            assert [list(turns) for turns in new_turns([r.size for r in rewards], pivots)] == fresh
            for n, reused in enumerate([0, *pivots]):
                rows += [(len(scores), returns[n][t], anchors[n][t]) for t in range(reused, len(returns[n]))]
                scores.append(float(sum(rewards[n])))
                tasks.append(task)
        episode = slow.group(scores, tasks, False)
        step = slow.group([r[1] for r in rows], [(tasks[r[0]], r[2]) for r in rows], False)
        expected = [episode[r[0]] + s for r, s in zip(rows, step, strict=True)]
        got = [part for chain in pivoarl_advantages(chains, 0.9, 0.5) for part in chain]
        np.testing.assert_allclose(np.concatenate(got), expected, atol=1e-9)


def test_without_isolation_the_wrong_suffix_is_credited() -> None:
    isolated = pivot_isolated_returns(A.rewards, A.pivots, 0.9, 0.5)[0]
    leaking = pivot_isolated_returns(A.rewards, A.pivots, 0.9, 0.5, isolation=False)[0]
    assert not isolated[1:].any()
    assert leaking[1:].all()


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (Chain(0, [[0.0, 1]], [], [["a"]]), r"chains\[0\].anchors\[0\] has length 1 but .* has length 2"),
        (Chain(0, [[0.0, 1]], [], []), r"chains\[0\].anchors has length 0"),
        (Chain(0, [[0.0]], [], [["a"]], [[0.0, 1]]), r"chains\[0\].penalties\[0\] has length 2"),
        (Chain(0, [[0.0]], [], [["a"]], []), r"chains\[0\].penalties has length 0"),
    ],
)
def test_wrong_chains_are_named(chain: Chain, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pivoarl_advantages([chain], 0.9, 0.5)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match="baseline is 'episodes'"):
        pivoarl_advantages([A], 0.9, 0.5, baseline="episodes")
    with pytest.raises(ValueError, match="pivots has length 0 but lengths has length 3"):
        new_turns([1, 2, 3], [])
