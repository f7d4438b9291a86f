"""What happens when memory runs out: half the pass, the same gradient, said once, counted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import passes, update  # noqa: E402
from turnpoint.policy.local.memory import Budget, ran_out  # noqa: E402
from turnpoint.policy.local.optim import Stepper  # noqa: E402

from .conftest import MakePolicy, episode_rows  # noqa: E402


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (RuntimeError("shape '[2]' is invalid"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_which_errors_mean_it(error: BaseException, expected: bool) -> None:
    assert ran_out(error) is expected


def test_a_budget_halves_until_it_fits_says_so_once_and_stays_there() -> None:
    budget, tried = Budget(1000, "the update"), list[int]()

    def attempt(tokens: int) -> int:
        tried.append(tokens)
        if tokens > 300:
            raise torch.OutOfMemoryError
        return tokens

    with pytest.warns(RuntimeWarning, match=r"half as many tokens \(500\).*policy.token_budget") as said:
        assert budget.run(attempt, longest=100) == 250
    assert len(said) == 1
    assert (tried, budget.halvings) == ([1000, 500, 250], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert budget.run(attempt, longest=100) == 250


def test_other_errors_pass_and_a_single_sequence_cannot_be_halved() -> None:
    def broken(tokens: int) -> int:
        raise RuntimeError("not about memory")

    def full(tokens: int) -> int:
        raise torch.OutOfMemoryError

    with pytest.raises(RuntimeError, match="not about memory"):
        Budget(64, "the update").run(broken, longest=4)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(ConfigError, match=r"pass of 40 tokens.*gradient_checkpointing"),
    ):
        Budget(64, "the update").run(full, longest=40)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """``limited(n)``: from now on forward passes of more than ``n`` tokens find no memory; gives their sizes."""

    def limit(most: int) -> list[int]:
        sizes: list[int] = []

        def states(network: Any, batch: Any, pool: Any = None) -> Any:
            sizes.append(len(batch) * max(map(len, batch)))
            if sizes[-1] > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return passes.tree_states(network, batch, pool)

        monkeypatch.setattr(update, "tree_states", states)
        return sizes

    return limit


def gradient(policy: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, float]]:
    caught: list[Any] = []

    def spy(self: Stepper, norm: float, scale: float = 1.0) -> float:
        caught.append(torch.cat([w.grad.flatten() for w in self.weights.values() if w.grad is not None]))
        return 0.0

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "step", spy)
        metrics = policy.update(rows)
    return torch.stack(caught), metrics


@pytest.mark.parametrize(
    ("settings", "most"),
    [({}, 70), ({"mini_batch_rows": 6}, 40), ({"merge_rows": "off", "loss": {"kl": 0.1}}, 70)],
)
def test_the_update_halves_and_its_gradient_and_metrics_are_the_same(
    make_policy: MakePolicy,
    limited: Callable[[int], list[int]],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    most: int,
) -> None:
    policy = make_policy(token_budget=256, **settings)
    rows = [
        row
        for e in range(6)
        for row in episode_rows(policy, np.random.default_rng(e), turns=4, name=f"e{e}", noise=0.2)
    ]
    expected, whole = gradient(policy, rows, monkeypatch)
    other = make_policy(token_budget=256, **settings)
    sizes = limited(most)
    with pytest.warns(RuntimeWarning, match="memory ran out in the update"):
        found, metrics = gradient(other, rows, monkeypatch)
    assert max(sizes) > most, "the limit was met"
    assert whole["out_of_memory"] == 0
    assert metrics["out_of_memory"] >= 2
    assert float((found - expected).abs().max()) <= 1e-6 * max(1.0, float(expected.abs().max()))
    counted = ("tokens", "rows", "optimizer_steps", "loss", "kl", "logprob_diff_mean")
    assert {n: metrics[n] for n in counted} == pytest.approx({n: whole[n] for n in counted}, abs=1e-6)
    before = len(sizes)
    _, again = gradient(other, rows, monkeypatch)
    assert again["out_of_memory"] == 0, "it stays at what fits"
    assert max(sizes[before:]) <= most


def test_one_row_that_does_not_fit_is_an_error_that_says_what_to_set(
    make_policy: MakePolicy, limited: Callable[[int], list[int]]
) -> None:
    policy = make_policy(token_budget=256)
    rows = episode_rows(policy, np.random.default_rng(0), turns=4, name="e")
    weights = [w.clone() for w in policy.network.model.parameters()]
    limited(3)
    with pytest.warns(RuntimeWarning), pytest.raises(ConfigError, match=r"single sequence.*policy\.lora"):
        policy.update(rows)
    assert all(torch.equal(a, b) for a, b in zip(weights, policy.network.model.parameters(), strict=True))


def test_supervised_training_and_scoring_halve_too(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.policy.local import scorer, supervised

    policy, plain = make_policy(token_budget=128, seed=1), make_policy(token_budget=128, seed=1)
    rng = np.random.default_rng(0)
    examples = [(rng.integers(2, 60, 20), np.ones(20)) for _ in range(6)]
    requests = [
        ScoreRequest(tuple(rng.integers(2, 60, 12).tolist()), tuple(rng.integers(2, 60, 8).tolist()))
        for _ in range(6)
    ]
    scores = plain.logprobs(requests)
    expected = plain.supervised_update(examples)

    def tight(whole: Callable[..., Any], most: int, at: int) -> Callable[..., Any]:
        def part(*args: Any, **kwargs: Any) -> Any:
            if len(args[at]) * max(map(len, args[at])) > most:
                raise torch.OutOfMemoryError
            return whole(*args, **kwargs)

        return part

    monkeypatch.setattr(supervised, "token_logprobs", tight(scorer.token_logprobs, 64, 1))
    monkeypatch.setattr(scorer, "tree_states", tight(passes.tree_states, 64, 1))
    with pytest.warns(RuntimeWarning, match="scoring"):
        halved = policy.logprobs(requests)
    for a, b in zip(halved, scores, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    with pytest.warns(RuntimeWarning, match="the update"):
        metrics = policy.supervised_update(examples)
    assert metrics["out_of_memory"] == 1
    assert metrics["loss"] == pytest.approx(expected["loss"], abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-5)


def test_sampling_says_what_to_lower(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.policy import SampleRequest

    policy = make_policy()
    policy.submit(SampleRequest((3, 4), seed=0))

    def full() -> list[Any]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(policy.engine, "advance", full)
    with pytest.raises(ConfigError, match=r"1 calls were sampled; lower rollout\.concurrent"):
        policy.advance()
