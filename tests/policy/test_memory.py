"""What happens when memory runs out: half the pass, the same gradient, said once, counted."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import divergence, measure, passes, scorer, supervised, update  # noqa: E402
from turnpoint.policy.local.frozen import FrozenModel  # noqa: E402
from turnpoint.policy.local.memory import Budget, ran_out  # noqa: E402
from turnpoint.policy.local.optim import Stepper  # noqa: E402
from turnpoint.policy.passages import Passage  # noqa: E402
from turnpoint.records.row import DivergenceSpec  # noqa: E402
from turnpoint.teachers.scoring.local import LocalScoring  # noqa: E402

from .conftest import MakePolicy, episode_rows, random_ids  # noqa: E402


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9"),
            True,
        ),
        (
            RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
            True,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("shape '[2]' is invalid"), False),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
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


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``tight(module, name, most)``: passes of that function of more than ``most`` tokens find no memory."""

    def limit(module: Any, name: str, most: int) -> None:
        whole = getattr(module, name)

        def part(network: Any, batch: Any, *args: Any) -> Any:
            if len(batch) * max(map(len, batch)) > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return whole(network, batch, *args)

        monkeypatch.setattr(module, name, part)

    return limit


def test_supervised_training_and_scoring_halve_too(
    make_policy: MakePolicy, tight: Callable[..., None]
) -> None:
    policy, plain = make_policy(token_budget=128, seed=1), make_policy(token_budget=128, seed=1)
    rng = np.random.default_rng(0)
    examples = [(rng.integers(2, 60, 20), np.ones(20)) for _ in range(6)]
    requests = [
        ScoreRequest(tuple(rng.integers(2, 60, 12).tolist()), tuple(rng.integers(2, 60, 8).tolist()))
        for _ in range(6)
    ]
    scores = plain.logprobs(requests)
    expected = plain.supervised_update(examples)

    tight(supervised, "token_logprobs", 64)
    tight(scorer, "tree_states", 64)
    with pytest.warns(RuntimeWarning, match="scoring"):
        halved = policy.logprobs(requests)
    for a, b in zip(halved, scores, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    with pytest.warns(RuntimeWarning, match="the update"):
        metrics = policy.supervised_update(examples)
    assert metrics["out_of_memory"] == 2, "once each"
    assert metrics["loss"] == pytest.approx(expected["loss"], abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-5)


def test_reading_the_divergence_teacher_halves_to_its_longest_prompt(
    make_policy: MakePolicy, tight: Callable[..., None]
) -> None:
    """The context is far longer than any prompt here, and than the budget."""
    rng = np.random.default_rng(0)
    policy, whole = make_policy(token_budget=128), make_policy(token_budget=128)
    rows = [
        dataclasses.replace(
            row, teacher_prompt_ids=(*random_ids(rng, 9), *row.prompt_ids), divergence=DivergenceSpec("jsd")
        )
        for n in range(8)
        for row in episode_rows(policy, rng, turns=1, name=f"e{n}")
    ]
    expected = whole.update(rows)
    tight(divergence, "tree_states", 48)
    assert policy.context_length > 128
    with pytest.warns(RuntimeWarning, match="memory ran out in the update"):
        metrics = policy.update(rows)
    assert metrics["out_of_memory"] >= 1
    for name in ("divergence", "loss", "grad_norm"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-4)
    tight(divergence, "tree_states", 3)
    longest = max(len(row.teacher_prompt_ids or ()) + len(row.response_ids) for row in rows)
    with pytest.raises(ConfigError, match=f"pass of {longest} tokens, a single sequence"):
        policy.update(rows)


def test_halvings_of_scoring_are_in_the_next_update_s_metrics(
    make_policy: MakePolicy, tight: Callable[..., None]
) -> None:
    policy, rng = make_policy(token_budget=128), np.random.default_rng(0)
    pairs = [
        (ScoreRequest(random_ids(rng, 14), reply), ScoreRequest(random_ids(rng, 12), reply))
        for reply in (random_ids(rng, 6) for _ in range(6))
    ]
    expected = policy.divergences(pairs)
    tight(measure, "tree_states", 64)
    with pytest.warns(RuntimeWarning, match="memory ran out in scoring"):
        found = policy.divergences(pairs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    rows = episode_rows(policy, rng, turns=2, name="e")
    assert policy.update(rows)["out_of_memory"] == 1
    assert policy.update(rows)["out_of_memory"] == 0
    tight(measure, "tree_states", 3)
    with pytest.raises(ConfigError, match=r"set policy\.dtype=bfloat16, play shorter episodes"):
        policy.divergences(pairs)
    examples = [(np.arange(2, 12), np.ones(10))]
    assert policy.supervised_update(examples)["out_of_memory"] > 0


def test_the_optimizer_s_moments_may_not_fit(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, rng = make_policy(), np.random.default_rng(0)

    def full() -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(policy._stepper.optimizers["adamw"], "step", full)
    with pytest.raises(ConfigError, match=r"optimizer's step.*policy\.optimizer\.kind=adamw8bit"):
        policy.update(episode_rows(policy, rng, turns=2, name="e"))


def test_a_checkpoint_may_not_fit(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = make_policy()

    def full() -> None:
        raise MemoryError

    monkeypatch.setattr(policy._stepper, "state_dict", full)
    with pytest.raises(ConfigError, match=r"while a checkpoint was written.*adamw8bit"):
        policy.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


# ---- scoring teachers -----------------------------------------------------------------------


def passages(count: int) -> list[Passage]:
    rng = np.random.default_rng(3)
    return [Passage(random_ids(rng, 20), ((12, 15), (17, 20))) for _ in range(count)]


def frozen(model_folder: Callable[..., Path], **settings: Any) -> FrozenModel:
    return FrozenModel(model_folder(), section="scoring.math", device="cpu", token_budget=128, **settings)


@pytest.mark.parametrize("cached", [False, True])
def test_a_scoring_teacher_halves(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    model, plain = frozen(model_folder), frozen(model_folder)
    names = [f"e{n}" for n in range(6)]

    def scores(of: FrozenModel) -> Any:
        return of.sessions.score(names, passages(6)) if cached else of.score(passages(6))

    expected = scores(plain)
    for name in ("hidden", "hidden_with_pool", "hidden_with_masks"):
        whole = getattr(model.network, name)

        def few(ids: Any, *args: Any, whole: Any = whole) -> Any:
            if ids.numel() > 64:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return whole(ids, *args)

        monkeypatch.setattr(model.network, name, few)
    with pytest.warns(RuntimeWarning, match=r"the scoring teacher.*set scoring\.math\.token_budget"):
        found = scores(model)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.concatenate(a), np.concatenate(b), atol=2e-5)
    assert model.budget.halvings == 1
    assert LocalScoring(model, batch=8).metrics()["out_of_memory"] == 1
    if cached:  # what was read by halves is cached like the rest
        assert model.sessions.counts == plain.sessions.counts
        scores(model)
        assert model.sessions.counts["read"] < 1.5 * plain.sessions.counts["read"]


def test_a_scoring_teacher_that_cannot_go_on_names_its_own_settings(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise torch.OutOfMemoryError

    model = frozen(model_folder, cache_rows=40)
    monkeypatch.setattr(model.network, "hidden_with_pool", full)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(ConfigError, match=r"pass of 20 tokens.*set scoring\.math\.dtype=bfloat16, play"),
    ):
        model.sessions.score(["e"], passages(1))
    model = frozen(model_folder, cache_rows=40)
    monkeypatch.setattr(model.sessions.pool, "grow", full)
    with pytest.raises(
        ConfigError, match=r"grew to 32 conversations.*lower scoring\.math\.cache_rows \(40\)"
    ):
        model.sessions.score([f"e{n}" for n in range(20)], passages(20))


def test_sampling_says_what_to_lower(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.policy import SampleRequest

    policy = make_policy()
    policy.submit(SampleRequest((3, 4), seed=0))

    def full() -> list[Any]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(policy.engine, "advance", full)
    with pytest.raises(ConfigError, match=r"1 calls were sampled; lower rollout\.concurrent"):
        policy.advance()
