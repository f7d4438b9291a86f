"""The update: same gradient however the rows are cut, and nothing trains that must not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import LocalPolicy, NonFiniteGradient  # noqa: E402
from turnpoint.records import Row  # noqa: E402

from .conftest import MakePolicy, episode_rows, random_ids  # noqa: E402


def rows_for(policy: LocalPolicy, noise: float = 0.3, episodes: int = 5, mask: bool = True) -> list[Row]:
    rng = np.random.default_rng(5)
    return [
        row
        for e in range(episodes)
        for row in episode_rows(policy, rng, turns=e % 4 + 1, name=f"e{e}", mask=mask, noise=noise)
    ]


def close(a: Any, b: Any) -> bool:
    return float((a - b).norm() / b.norm()) <= 1e-5


VARIANTS: list[dict[str, Any]] = [
    {},
    {"aggregation": "seq-mean-token-mean", "ratio": "sequence", "clip": 0.05, "clip_high": 0.1},
    {"aggregation": "seq-mean-token-sum", "dual_clip": 3.0, "kl": 0.05},
]


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
@pytest.mark.parametrize("loss", VARIANTS)
def test_gradient_does_not_depend_on_merging_micro_batches_or_order(
    make_policy: MakePolicy, gradient: Any, loss: dict[str, Any], kind: str
) -> None:
    base = make_policy(kind, loss=loss)
    rows = rows_for(base)
    expected, metrics = gradient(base, rows)
    assert metrics["sequences"] == 5
    for settings in (
        {"merge_rows": False},
        {"token_budget": 40},
        {"token_budget": 1, "gradient_checkpointing": True},
    ):
        flat, other = gradient(make_policy(kind, loss=loss, **settings), rows)
        assert close(flat, expected), settings
        for name in (
            "loss",
            "pg_loss",
            "kl",
            "clip_fraction",
            "ppo_kl",
            "ratio_max",
            "tokens",
            "logprob_diff_max",
        ):
            assert other[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-6), name
    assert (
        other["tokens_processed"] != metrics["tokens_processed"] or other["sequences"] == metrics["sequences"]
    )
    order = np.random.default_rng(0).permutation(len(rows))
    assert close(gradient(make_policy(kind, loss=loss), [rows[i] for i in order])[0], expected)


def branching_rows(policy: LocalPolicy) -> list[Row]:
    """Episodes with rows that branch off them, rows that begin alike, and equal tokens with other advantages."""
    rows = rows_for(policy, episodes=4)
    rng = np.random.default_rng(8)
    start = random_ids(rng, 20)
    prompts = [rows[-1].prompt_ids, rows[-1].prompt_ids, *((*start, *random_ids(rng, n)) for n in (1, 4, 9))]
    for i, prompt in enumerate([*prompts, (*prompts[-1], 5), prompts[-1][:-1], prompts[-1][:-1]]):
        n = int(rng.integers(1, 6))
        mask = rng.random(n) < 0.7 if i % 2 else None
        response, old, gain = random_ids(rng, n), rng.normal(-3, 0.3, size=n), rng.normal(size=n)
        rows.append(Row(prompt, response, old, gain, mask=mask, episode=f"branch{i}"))
    twin = dataclasses.replace(rows[-2], advantages=rows[-2].advantages + 1.0, episode="twin")
    return [*rows, twin]


@pytest.mark.parametrize("kind", ["qwen3", "llama", "neox", "gemma3", "mistral", "gpt2"])
@pytest.mark.parametrize("loss", VARIANTS)
def test_trees_give_the_same_gradient(
    make_policy: MakePolicy, gradient: Any, loss: dict[str, Any], kind: str
) -> None:
    rows = branching_rows(make_policy(kind))
    expected, single = gradient(make_policy(kind, loss=loss, merge_rows="off"), rows)
    work = [single["tokens_processed"]]
    for settings in (
        {"merge_rows": "chains"},
        {},
        {"token_budget": 40},
        {"token_budget": 30, "gradient_checkpointing": True},
    ):
        flat, metrics = gradient(make_policy(kind, loss=loss, **settings), rows)
        assert close(flat, expected), settings
        for name in ("loss", "kl", "clip_fraction", "ratio_max", "tokens", "logprob_diff_max"):
            assert metrics[name] == pytest.approx(single[name], rel=1e-4, abs=1e-6), name
        work.append(metrics["tokens_processed"])
    assert work[2] < 0.8 * work[1] < work[0]


def test_settings_of_merging(make_policy: MakePolicy) -> None:
    for given, meant in ((True, "trees"), (False, "off"), ("chains", "chains")):
        assert make_policy(merge_rows=given).settings.merge_rows == meant
    with pytest.raises(ValueError, match="merge_rows"):
        make_policy(merge_rows="some")


def test_chunked_head_gives_the_same_gradient(
    make_policy: MakePolicy, gradient: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.policy.local import scorer

    policy = make_policy()
    rows = rows_for(policy)
    expected, _ = gradient(policy, rows)
    monkeypatch.setattr(scorer, "LOGIT_ELEMENTS", 3 * 64)
    assert close(gradient(make_policy(), rows)[0], expected)


def test_first_update_is_pure_policy_gradient(make_policy: MakePolicy, gradient: Any) -> None:
    policy = make_policy()
    rows = rows_for(policy, noise=0.0)
    _, metrics = gradient(policy, rows)
    gains = np.concatenate([row.advantages if row.mask is None else row.advantages[row.mask] for row in rows])
    assert metrics["pg_loss"] == pytest.approx(-gains.mean(), abs=1e-5)
    assert metrics["ppo_kl"] == pytest.approx(0, abs=1e-5)
    assert metrics["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert metrics["logprob_diff_max"] < 1e-5
    assert metrics["clip_fraction"] == 0
    assert metrics["optimizer_steps"] == 1
    assert metrics["tokens"] == len(gains)
    assert metrics["tokens"] + metrics["tokens_masked"] == sum(len(row.response_ids) for row in rows)


@pytest.mark.parametrize("merge", [True, False])
def test_only_trained_tokens_have_a_gradient(make_policy: MakePolicy, gradient: Any, merge: bool) -> None:
    policy = make_policy(merge_rows=merge, model={"tie_word_embeddings": False})
    # Row b extends row a; the last tokens of b are masked, and their ids occur nowhere else.
    a = Row((2, 3, 4), (5, 6), np.array([-4.0, -4.0]), np.array([1.0, -0.5]), episode="a")
    b = Row(
        (2, 3, 4, 5, 6, 7, 8),
        (9, 10, 60, 61),
        np.full(4, -4.0),
        np.array([1.0, 2, 3, 4]),
        mask=np.array([1, 1, 0, 0]),
    )
    flat, _ = gradient(policy, [a, b])
    shapes = dict(policy.network.model.named_parameters())
    parts = dict(zip(shapes, flat.split([w.numel() for w in shapes.values()]), strict=True))
    embedding = parts["model.embed_tokens.weight"].reshape(64, -1)
    # Inputs that only precede untrained positions get none: the last trained token, and all after it.
    touched = {i for i in range(64) if embedding[i].any()}
    assert touched == {2, 3, 4, 5, 6, 7, 8, 9}
    # What masked positions hold does not matter.
    changed = dataclasses.replace(
        b,
        response_ids=(9, 10, 33, 34),
        advantages=np.array([1.0, 2, 99, -99]),
        old_logprobs=np.array([-4.0, -4, -1, 0]),
    )
    other, _ = gradient(make_policy(merge_rows=merge, model={"tie_word_embeddings": False}), [a, changed])
    torch.testing.assert_close(other, flat, rtol=0, atol=1e-7)


def test_gradient_moves_when_only_advantages_move(make_policy: MakePolicy, gradient: Any) -> None:
    policy = make_policy()
    rows = rows_for(policy)
    expected, _ = gradient(policy, rows)
    moved = [dataclasses.replace(row, advantages=row.advantages + 0.1) for row in rows]
    assert not close(gradient(make_policy(), moved)[0], expected)
    silent = [dataclasses.replace(row, advantages=0 * row.advantages) for row in rows]
    assert not gradient(make_policy(), silent)[0].any()


def test_zero_advantage_rows_count_in_the_denominator_unless_dropped(
    make_policy: MakePolicy, gradient: Any
) -> None:
    policy = make_policy()
    rows = rows_for(policy, mask=False)
    for row in rows[::2]:
        row.advantages[:] = 0
    both, metrics = gradient(policy, rows)
    dropped, fewer = gradient(make_policy(loss={"drop_zero_advantage_rows": True}), rows)
    assert fewer["rows_dropped/zero_advantage"] == len(rows[::2])
    assert fewer["tokens"] + fewer["tokens_dropped/zero_advantage"] == metrics["tokens"]
    assert close(dropped * fewer["tokens"], both * metrics["tokens"])


def test_too_long_and_fully_masked_rows_are_counted(make_policy: MakePolicy) -> None:
    policy = make_policy(context_length=20)
    rng = np.random.default_rng(0)
    good = Row(random_ids(rng, 10), random_ids(rng, 10), np.full(10, -4.0), np.ones(10), episode="good")
    long = Row(random_ids(rng, 11), random_ids(rng, 10), np.full(10, -4.0), np.ones(10), episode="long")
    masked = dataclasses.replace(good, mask=np.zeros(10, dtype=bool))
    metrics = policy.update([good, long, masked])
    assert (metrics["rows"], metrics["rows_dropped/too_long"], metrics["rows_dropped/fully_masked"]) == (
        1,
        1,
        1,
    )
    assert metrics["tokens_dropped/too_long"] == 10
    before = weights(policy)
    empty = policy.update([long])
    assert (empty["rows"], empty["optimizer_steps"], empty["tokens"]) == (0, 0, 0)
    assert torch.equal(weights(policy), before)
    with pytest.raises(ValueError, match=r"good#0:act.*prompt"):
        policy.update([dataclasses.replace(good, prompt_ids=())])


def weights(policy: LocalPolicy) -> Any:
    return torch.cat([w.detach().flatten().float() for w in policy.network.model.parameters()])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_learning_raises_what_is_rewarded(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(optimizer={"kind": kind, "lr": 1e-2})
    request = ScoreRequest((3, 4, 5), (6, 7))
    (before,) = policy.logprobs([request])
    metrics = policy.update([Row((3, 4, 5), (6, 7), before, np.array([1.0, -1.0]))])
    (after,) = policy.logprobs([request])
    assert after[0] > before[0]
    assert after[1] < before[1]
    assert metrics["grad_norm"] > 0


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_no_learning_rate_no_drift(make_policy: MakePolicy, kind: str) -> None:
    policy = make_policy(optimizer={"kind": kind, "lr": 0.0, "weight_decay": 0.1})
    before = weights(policy)
    for _ in range(3):
        policy.update(rows_for(policy))
    assert torch.equal(weights(policy), before)


def test_mini_batches_take_whole_chains_and_one_step_each(make_policy: MakePolicy) -> None:
    policy = make_policy(mini_batch_rows=4, optimizer={"lr": 1e-3})
    rows = rows_for(policy, episodes=8)
    groups = [list(range(i, i + n)) for i, n in ((0, 3), (3, 1), (4, 2), (6, 5), (11, 1))]
    batches = policy._updater._mini_batches(groups)
    assert sorted(g for batch in batches for g in batch) == groups
    assert all(sum(map(len, batch)) >= 4 for batch in batches[:-1])
    metrics = policy.update(rows)
    assert 1 < metrics["optimizer_steps"] <= len(rows) / 4 + 1
    assert policy._stepper.steps == metrics["optimizer_steps"]
    # Merging changes which sequences are run, not which rows share a step.
    merged, single = make_policy(mini_batch_rows=4), make_policy(mini_batch_rows=4, merge_rows=False)
    assert merged.update(rows)["loss"] == pytest.approx(single.update(rows)["loss"], rel=1e-4)


def test_warm_up_and_clipping(make_policy: MakePolicy) -> None:
    policy = make_policy(optimizer={"lr": 1e-2, "warmup_steps": 4, "grad_clip": 1e-3})
    rates = [policy.update(rows_for(policy))["lr"] for _ in range(5)]
    np.testing.assert_allclose(rates, [0.0025, 0.005, 0.0075, 0.01, 0.01])
    state = policy._stepper.optimizers["adamw"].state
    moments = torch.cat([entry["exp_avg"].flatten() for entry in state.values()])
    assert 0 < float(moments.norm()) <= 1e-3


def test_muon_takes_hidden_matrices_and_adamw_the_rest(make_policy: MakePolicy) -> None:
    policy = make_policy(optimizer={"kind": "muon", "lr": 1e-2}, model={"tie_word_embeddings": False})
    stepper = policy._stepper
    in_muon = {id(p) for g in stepper.optimizers["muon"].param_groups for p in g["params"]}
    in_adamw = {id(p) for g in stepper.optimizers["adamw"].param_groups for p in g["params"]}
    assert not in_muon & in_adamw
    for name, weight in policy.network.model.named_parameters():
        hidden = weight.ndim == 2 and "embed" not in name and "lm_head" not in name
        assert id(weight) in (in_muon if hidden else in_adamw), name
    assert stepper.optimizers["adamw"].param_groups[0]["lr"] == pytest.approx(1e-3)


def test_non_finite_log_probs_and_gradients_name_the_row(make_policy: MakePolicy) -> None:
    policy = make_policy(model={"tie_word_embeddings": False})
    rows = [
        Row((2, 3), (4, 5), np.full(2, -4.0), np.ones(2), episode="fine"),
        Row((2, 3, 33), (4, 5), np.full(2, -4.0), np.ones(2), episode="broken"),
    ]
    before = weights(policy)
    with torch.no_grad():
        policy.network.model.get_input_embeddings().weight[33] = float("nan")
    with pytest.raises(NonFiniteGradient, match=r"broken#0:act") as caught:
        policy.update(rows)
    assert "fine" not in str(caught.value)
    with torch.no_grad():
        policy.network.model.get_input_embeddings().weight[33] = 0.0

    def spoil(module: Any, inputs: Any, output: Any) -> Any:
        if output.requires_grad:
            hit = (module.ids == 33).any(-1)
            output.register_hook(lambda grad: torch.where(hit[:, None, None], torch.nan, grad))
        return output

    layer = policy.network.model.get_input_embeddings()
    layer.register_forward_pre_hook(lambda module, inputs: setattr(module, "ids", inputs[0]))
    layer.register_forward_hook(spoil)
    with pytest.raises(NonFiniteGradient, match=r"gradient of row broken#0:act is not finite"):
        policy.update(rows)
    assert policy._stepper.steps == 0
    assert policy._updater.updates == 0
    unchanged = before.reshape(-1) == weights(policy)
    assert int((~unchanged).sum()) <= 32


def test_update_drops_caches_and_refuses_calls_in_flight(make_policy: MakePolicy) -> None:
    from turnpoint.policy import SampleRequest, Sampling

    policy = make_policy(optimizer={"lr": 0.1})
    sampling = Sampling(max_tokens=3)
    request = SampleRequest(tuple(range(2, 30)), seed=0, session="s", sampling=sampling)
    policy.submit(request)
    with pytest.raises(RuntimeError, match="in flight"):
        policy.update(rows_for(policy))
    policy.advance()
    policy.update(rows_for(policy))
    policy.submit(request)
    ((_, sample),) = policy.advance()
    (expected,) = policy.logprobs([ScoreRequest(request.prompt_ids, sample.token_ids)])
    np.testing.assert_allclose(sample.logprobs, expected, atol=1e-5)


def test_bfloat16_trains_with_small_steps(make_policy: MakePolicy) -> None:
    policy = make_policy(dtype="bfloat16", optimizer={"lr": 1e-5})
    assert policy.network.dtype == torch.bfloat16
    start = weights(policy)
    rows = rows_for(policy, noise=0.0)
    first = policy.update(rows)
    assert first["logprob_diff_max"] < 0.05
    for _ in range(99):
        metrics = policy.update(rows)
    assert np.isfinite(metrics["loss"])
    assert metrics["loss"] < first["loss"]
    # 100 steps of 1e-5 are far below bfloat16's resolution one by one; the float32 masters add them up.
    assert float((weights(policy) != start).float().mean()) > 0.2
