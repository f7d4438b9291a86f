"""Group advantages and returns against verl's estimators: equal to 1e-6 or better, or different in a stated way."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import pytest
import torch
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos

from turnpoint.credit import discounted_returns, episode_row_advantages, gigpo_advantages, group_advantages

CASES = 300
EPSILON = 1e-6
ONE_PLUS_EPSILON = np.float32(
    1 + EPSILON
)  # verl's divisor of a group of one is a float32 whatever the scores are
MODES = ["mean", "mean_std"]


def batches(seed: int, kinds: int = 3) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Scores and their groups, shuffled: groups of 1 to 9, some with equal scores, at many scales."""
    rng = np.random.default_rng(seed)
    for case in range(CASES):
        groups = np.repeat(np.arange(n := rng.integers(1, 6)), rng.integers(1, 10, size=n))
        if case % kinds == 0:
            scores = 10.0 * rng.integers(0, 2, size=groups.size)
        elif case % kinds == 1:
            scores = rng.integers(-4, 5, size=groups.size) / 4.0
        else:
            scores = 10.0 ** rng.uniform(-3, 3) * rng.standard_normal(groups.size)
        order = rng.permutation(groups.size)
        yield scores[order], groups[order]


def judged(function, scores: np.ndarray, groups: np.ndarray, **options) -> np.ndarray:
    """verl's advantage of each row: the score lies on the last of three tokens, the middle one is an observation."""
    rewards = torch.zeros(scores.size, 3, dtype=torch.float64)
    rewards[:, 2] = torch.tensor(scores)
    mask = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64).expand(scores.size, 3)
    advantages, _ = function(rewards, mask, index=groups, **options)
    assert not advantages[:, 1].any()
    assert torch.equal(advantages[:, 0], advantages[:, 2])
    return advantages[:, 0].double().numpy()


def grpo(scores: np.ndarray, groups: np.ndarray, normalise: str) -> np.ndarray:
    return judged(
        core_algos.compute_grpo_outcome_advantage,
        scores, groups, epsilon=EPSILON, norm_adv_by_std_in_grpo=normalise == "mean_std",
    )  # fmt: skip


def alone(groups: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return counts[inverse] == 1


def test_the_judge_is_the_version_the_documentation_names() -> None:
    assert version("verl").startswith("0.9.")


@pytest.mark.parametrize("normalise", MODES)
def test_grpo(normalise: str) -> None:
    """Same mean, unbiased deviation and epsilon. A group of one: ours is 0, verl's keeps the score."""
    singles = 0
    for scores, groups in batches(1):
        ours, theirs = group_advantages(scores, groups, normalise=normalise), grpo(scores, groups, normalise)
        single = alone(groups)
        singles += int(single.sum())
        np.testing.assert_allclose(ours[~single], theirs[~single], rtol=1e-9, atol=1e-9)
        assert not ours[single].any()
        kept = scores[single] / np.float64(ONE_PLUS_EPSILON) if normalise == "mean_std" else scores[single]
        np.testing.assert_allclose(theirs[single], kept, rtol=1e-12)
    assert singles > 40


@pytest.mark.parametrize("normalise", MODES)
def test_equal_scores(normalise: str) -> None:
    """Ours are exactly 0; verl's are 0 up to the rounding of the mean."""
    rng = np.random.default_rng(2)
    for _ in range(CASES):
        scores = np.full(rng.integers(2, 10), rng.uniform(-10, 10))
        groups = np.zeros(scores.size, dtype=int)
        assert not group_advantages(scores, groups, normalise=normalise).any()
        assert np.abs(grpo(scores, groups, normalise)).max() < 1e-6


def test_noise_is_a_signal_to_verl_only() -> None:
    """Below 5e-4 of the largest score a deviation counts as 0 here; verl divides by it."""
    rng = np.random.default_rng(3)
    for _ in range(CASES):
        scores = 10.0 * (1 + 1e-5 * rng.standard_normal(8))
        groups = np.zeros(8, dtype=int)
        assert not group_advantages(scores, groups, normalise="mean_std").any()
        theirs = (scores - scores.mean()) / (scores.std(ddof=1) + EPSILON)
        np.testing.assert_allclose(grpo(scores, groups, "mean_std"), theirs, rtol=1e-6, atol=1e-6)
        assert np.abs(theirs).max() > 0.5
        np.testing.assert_allclose(
            group_advantages(scores, groups, normalise="mean"), grpo(scores, groups, "mean"), atol=1e-12
        )


@pytest.mark.parametrize("normalise", MODES)
def test_grpo_vectorised(normalise: str) -> None:
    """verl's other GRPO works in float32, hence scores of few digits."""
    for scores, groups in batches(4, kinds=2):
        theirs = judged(
            core_algos.compute_grpo_vectorized_outcome_advantage,
            scores, groups, epsilon=EPSILON, norm_adv_by_std_in_grpo=normalise == "mean_std",
        )  # fmt: skip
        single = alone(groups)
        ours = group_advantages(scores, groups, normalise=normalise)
        np.testing.assert_allclose(ours[~single], theirs[~single], rtol=1e-6, atol=1e-6)


def test_leave_one_out_is_the_mean_baseline_scaled() -> None:
    """RLOO of n scores is n / (n - 1) times ours with ``normalise: mean``."""
    for scores, groups in batches(5):
        _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
        size = counts[inverse]
        theirs = judged(core_algos.compute_rloo_outcome_advantage, scores, groups)[size > 1]
        ours = group_advantages(scores, groups, normalise="mean")[size > 1]
        size = size[size > 1]
        np.testing.assert_allclose(ours * size / (size - 1), theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normalise", MODES)
def test_baselines_over_episodes_and_over_rows(normalise: str) -> None:
    """verl counts what it is given: episodes, or the rows that an episode was cut into."""
    rng = np.random.default_rng(6)
    for scores, groups in batches(6):
        owner = np.repeat(np.arange(scores.size), rng.integers(1, 5, size=scores.size))
        ours = {
            baseline: episode_row_advantages(scores, groups, owner, normalise=normalise, baseline=baseline)
            for baseline in ("episodes", "rows")
        }
        theirs = grpo(scores, groups, normalise)[owner]
        judge = ~alone(groups)[owner]
        np.testing.assert_allclose(ours["episodes"][judge], theirs[judge], rtol=1e-9, atol=1e-9)
        theirs = grpo(scores[owner], groups[owner], normalise)
        judge = ~alone(groups[owner])
        np.testing.assert_allclose(ours["rows"][judge], theirs[judge], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normalise", MODES)
def test_gigpo_is_made_of_two_of_verls_groupings(normalise: str) -> None:
    """verl publishes no GiGPO; both levels are GRPO, over the tasks' episodes and over rows of equal state."""
    assert not [name for name in core_algos.ADV_ESTIMATOR_REGISTRY if "gigpo" in name.lower()]
    rng = np.random.default_rng(7)
    for scores, groups in batches(7):
        owner = np.repeat(np.arange(scores.size), rng.integers(1, 5, size=scores.size))
        returns = rng.integers(-40, 41, size=owner.size) / 8.0
        states = rng.integers(0, 3, size=owner.size)
        omega = float(rng.uniform(0.1, 2.0))
        step_groups = groups[owner] * 3 + states
        episode, step = grpo(scores, groups, normalise)[owner], grpo(returns, step_groups, normalise)
        episode[alone(groups)[owner]] = 0.0
        step[alone(step_groups)] = 0.0
        ours = gigpo_advantages(scores, groups, owner, returns, states, normalise=normalise, omega=omega)
        np.testing.assert_allclose(ours, episode + omega * step, rtol=1e-9, atol=1e-9)


def test_discounted_returns() -> None:
    """Returns of verl's REINFORCE++ and of its GAE without a critic (lambda = 1), observations skipped."""
    rng = np.random.default_rng(8)
    for _ in range(CASES):
        rewards, mask = rng.standard_normal((2, 9)), rng.random((2, 9)) < 0.7
        mask[:, 0] = True
        gamma = float(rng.choice([0.0, 0.5, 0.95, 1.0]))
        given = torch.tensor(rewards * mask), torch.tensor(mask, dtype=torch.float64)
        _, plain = core_algos.compute_reinforce_plus_plus_outcome_advantage(
            *given, config=AlgoConfig(gamma=gamma)
        )
        _, gae = core_algos.compute_gae_advantage_return(
            given[0], torch.zeros(2, 9, dtype=torch.float64), given[1], gamma=gamma, lam=1.0
        )
        for row in range(2):
            ours = discounted_returns(rewards[row][mask[row]], gamma)
            np.testing.assert_allclose(ours, plain[row][mask[row]], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(ours, gae[row][mask[row]], rtol=1e-12, atol=1e-12)
