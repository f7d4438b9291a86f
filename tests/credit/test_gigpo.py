"""GiGPO's two levels: the four normalisation modes, revisited states and penalties."""

from __future__ import annotations

import numpy as np
import pytest

from turnpoint.credit import (
    discounted_returns,
    episode_row_advantages,
    gigpo_advantages,
    group_advantages,
    step_advantages,
)

from . import reference as slow


def gigpo(
    rewards: list[list[float]], anchors: list[list[str]], gamma: float, **options: object
) -> np.ndarray:
    return gigpo_advantages(
        [sum(r) for r in rewards],
        ["task"] * len(rewards),
        [e for e, r in enumerate(rewards) for _ in r],
        np.concatenate([discounted_returns(r, gamma) for r in rewards]),
        [a for states in anchors for a in states],
        **options,
    )


@pytest.mark.parametrize(
    ("normalise", "baseline", "expected"),
    [
        ("mean", "rows", [8.5125, 8.75, 4, -10.5125, -10.75]),
        ("mean", "episodes", [9.5125, 9.75, 5, -9.5125, -9.75]),
        ("mean_std", "rows", [1.437403, 1.437403, 0.730297, -1.802552, -1.802552]),
        ("mean_std", "episodes", [1.414213, 1.414213, 0.707107, -1.414213, -1.414213]),
    ],
)
def test_modes(normalise: str, baseline: str, expected: list[float]) -> None:
    rewards, anchors = [[0.0, 0, 10], [0.0, 0]], [["s0", "s1", "s2"], ["s0", "s1"]]
    result = gigpo(rewards, anchors, 0.95, normalise=normalise, baseline=baseline)
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_a_state_visited_twice_is_compared_with_itself() -> None:
    rewards, anchors = [[0.0, 0, 0, 1], [0.0, 0]], [["s0", "s1", "s0", "s2"], ["s0", "s3"]]
    result = gigpo(rewards, anchors, 0.9, normalise="mean", baseline="episodes")
    np.testing.assert_allclose(result, [0.686, 0.5, 0.857, 0.5, -1.043, -0.5], atol=1e-12)


def test_weights_of_the_two_levels() -> None:
    rewards, anchors = [[0.0, 0, 10], [0.0, 0]], [["s0", "s1", "s2"], ["s0", "s1"]]
    episode = gigpo(rewards, anchors, 0.95, omega=0)
    step = gigpo(rewards, anchors, 0.95, episode_weight=0)
    np.testing.assert_array_equal(episode, [5, 5, 5, -5, -5])
    np.testing.assert_allclose(step, [4.5125, 4.75, 0, -4.5125, -4.75])
    np.testing.assert_allclose(
        gigpo(rewards, anchors, 0.95, omega=2, episode_weight=3), 3 * episode + 2 * step
    )


def test_without_shared_states_gigpo_is_grpo_bit_for_bit() -> None:
    rewards = [[0.0, 1], [0.0], [0.35, 0.1]]
    anchors = [["a", "b"], ["c"], ["d", "e"]]
    grpo = group_advantages([1, 0, 0.35 + 0.1], [0] * 3, normalise="mean_std")
    np.testing.assert_array_equal(gigpo(rewards, anchors, 0.9, normalise="mean_std"), grpo[[0, 0, 1, 2, 2]])


def test_a_penalty_stays_on_its_row() -> None:
    scores, owner = [1.0, 0.0], [0, 0, 1, 1]
    plain = episode_row_advantages(scores, ["t", "t"], owner)
    penalised = episode_row_advantages(scores, ["t", "t"], owner, penalties=[0, 0.5, 0, 0])
    # The episode mean falls by 0.5/2, so the baseline of two episodes falls by 0.125.
    np.testing.assert_allclose(penalised - plain, [0.125, -0.375, 0.125, 0.125])
    both = gigpo_advantages(
        scores, ["t", "t"], owner, [1, 1, 0, 0], ["x", "y", "x", "y"], penalties=[0, 0.5, 0, 0]
    )
    np.testing.assert_allclose(both, penalised + np.array([0.5, 0.25, -0.5, -0.25]))


def test_penalties_of_zero_change_nothing() -> None:
    scores, owner = [1.0, 0.35, 0.0], [0, 0, 0, 1, 2, 2]
    for normalise in ("mean", "mean_std"):
        for baseline in ("episodes", "rows"):
            options = {"normalise": normalise, "baseline": baseline}
            np.testing.assert_allclose(
                episode_row_advantages(scores, [0] * 3, owner, penalties=np.zeros(6), **options),
                episode_row_advantages(scores, [0] * 3, owner, **options),
                rtol=1e-12,
            )


def test_an_episode_without_rows_counts_in_the_episode_baseline() -> None:
    np.testing.assert_allclose(episode_row_advantages([1.0, 0, 0], [0] * 3, [0]), [2 / 3])
    np.testing.assert_allclose(episode_row_advantages([1.0, 0, 0], [0] * 3, [0], penalties=[0.5]), [1 / 3])


def test_agrees_with_the_definition() -> None:
    for rng in slow.cases(3):
        episodes = int(rng.integers(1, 6))
        owner = rng.integers(0, episodes, size=rng.integers(0, 12)).tolist()
        scores = rng.choice([0.0, 1.0, 10.0], size=episodes).tolist()
        tasks = rng.integers(0, 2, size=episodes).tolist()
        scale = bool(rng.random() < 0.5)
        mode = "mean_std" if scale else "mean"
        once = slow.group(scores, tasks, scale)
        per_row = slow.group([scores[e] for e in owner], [tasks[e] for e in owner], scale)
        penalties = rng.choice([0.0, 0.5], size=len(owner)).tolist()
        returns = rng.normal(size=len(owner)).tolist()
        states = rng.integers(0, 3, size=len(owner)).tolist()
        np.testing.assert_allclose(
            episode_row_advantages(scores, tasks, owner, normalise=mode), [once[e] for e in owner], atol=1e-9
        )
        np.testing.assert_allclose(
            episode_row_advantages(scores, tasks, owner, normalise=mode, baseline="rows"), per_row, atol=1e-9
        )
        np.testing.assert_allclose(
            episode_row_advantages(scores, tasks, owner, normalise=mode, penalties=penalties),
            slow.penalised_episodes(scores, tasks, owner, penalties, scale),
            atol=1e-9,
        )
        steps = slow.group(returns, [(tasks[e], s) for e, s in zip(owner, states, strict=True)], scale)
        np.testing.assert_allclose(
            gigpo_advantages(scores, tasks, owner, returns, states, normalise=mode, omega=0.5),
            [once[e] + 0.5 * s for e, s in zip(owner, steps, strict=True)],
            atol=1e-9,
        )


def test_levels_add_up_exactly() -> None:
    rng = np.random.default_rng(0)
    scores, tasks, owner = rng.normal(size=4), [0, 0, 1, 1], rng.integers(0, 4, size=20)
    returns, states = rng.normal(size=20), rng.integers(0, 3, size=20)
    result = gigpo_advantages(scores, tasks, owner, returns, states)
    step = step_advantages(returns, states, normalise="mean", groups=[tasks[e] for e in owner])
    np.testing.assert_array_equal(result, episode_row_advantages(scores, tasks, owner) + step)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: episode_row_advantages([1.0], [0], [0, 1]),
            r"row_episode\[1\] is 1 but there are 1 episodes",
        ),
        (lambda: episode_row_advantages([1.0], [0], [-1]), r"row_episode\[0\] is -1"),
        (lambda: episode_row_advantages([1.0], [0], [0.0]), "vector of integers"),  # type: ignore[list-item]
        (lambda: episode_row_advantages([1.0], [0, 1], [0]), "scores has length 1 but groups has length 2"),
        (lambda: episode_row_advantages([1.0], [0], [0], baseline="turns"), "baseline is 'turns'"),
        (lambda: episode_row_advantages([1.0], [0], [0], penalties=[1, 2]), "penalties has length 2"),
        (lambda: gigpo_advantages([1.0], [0], [0], [1, 2], ["a", "b"]), "returns has length 2"),
        (lambda: gigpo_advantages([1.0], [0], [0], [1], ["a"], omega=np.nan), "omega is nan"),
        (
            lambda: gigpo_advantages([1.0], [0], [0], [1], ["a"], episode_groups=[]),
            "episode_groups has length 0",
        ),
    ],
)
def test_wrong_input_is_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
