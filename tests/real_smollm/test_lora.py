"""LoRA through peft: adapters alone train, sampler = trainer, checkpoints resume, merged models load anywhere."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from turnpoint.config import ConfigError
from turnpoint.policy import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.local import LocalPolicy
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.preflight.memory import adapter_parameters
from turnpoint.records import Row

from .conftest import FAMILIES, models

pytestmark = pytest.mark.smollm
Tiny = Callable[..., LocalPolicy]
LORA: dict[str, Any] = {"lora": {"rank": 4}, "optimizer": {"lr": 1e-2}}
REQUEST = [ScoreRequest((3, 4, 5), (6, 7))]


def rows_of(policy: LocalPolicy, seed: int = 0, noise: float = 0.0) -> list[Row]:
    return [
        row
        for e in range(4)
        for row in models.episode_rows(
            policy, np.random.default_rng([seed, e]), turns=3, name=f"e{e}", noise=noise
        )
    ]


def base_weights(policy: LocalPolicy) -> dict[str, torch.Tensor]:
    return {n: w.detach().clone() for n, w in policy.network.model.named_parameters() if ".lora_" not in n}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_only_adapters_train_and_sampler_trainer_and_merged_model_agree(
    tiny: Tiny, tiny_folder: Callable[[str], Path], tmp_path: Path, kind: str, dtype: str
) -> None:
    policy = tiny(kind, dtype=dtype, **LORA)
    base, before = base_weights(policy), policy.logprobs(REQUEST)[0]
    plain = tiny(kind, dtype=dtype)
    np.testing.assert_array_equal(before, plain.logprobs(REQUEST)[0], "adapters begin as nothing")
    for number in range(2):
        metrics = policy.update(rows_of(policy, number))
    assert metrics["grad_norm"] > 0
    after = policy.logprobs(REQUEST)[0]
    assert np.abs(after - before).max() > 1e-3
    assert all(torch.equal(base[name], weight) for name, weight in base_weights(policy).items())
    assert all(".lora_" in name for name in policy._stepper.weights)
    np.testing.assert_array_equal(policy.logprobs(REQUEST, "reference")[0], before)
    np.testing.assert_array_equal(policy.logprobs(REQUEST)[0], after, "the adapters are on again")
    exact = 1e-4 if dtype == "float32" else 0.1
    assert sampler_gap(policy) <= exact
    policy.save(tmp_path / "saved")
    merged = LocalPolicy(
        LocalPolicySettings(model=str(tmp_path / "saved"), dtype=dtype, device="cpu"), seed=0
    )  # type: ignore[arg-type]
    np.testing.assert_allclose(merged.logprobs(REQUEST)[0], after, atol=exact)
    count = sum(weight.numel() for weight in policy._stepper.weights.values())
    if kind not in ("gpt2", "neox"):  # these keep several layers in one matrix, or name them otherwise
        assert policy.settings.lora is not None
        assert adapter_parameters(tiny_folder(kind), policy.settings.lora) == count


def sampler_gap(policy: LocalPolicy) -> float:
    """Largest difference of log-probs between sampler and scorer, over two turns of four sessions."""
    gaps = []
    prompts: dict[str, tuple[int, ...]] = {f"s{i}": tuple(range(3, 8 + i)) for i in range(4)}
    for _ in range(2):
        tickets = {
            policy.submit(SampleRequest(ids, seed=n, sampling=Sampling(max_tokens=8), session=name)): name
            for n, (name, ids) in enumerate(prompts.items())
        }
        for ticket, sample in models.finish(policy).items():
            name = tickets[ticket]
            (scored,) = policy.logprobs([ScoreRequest(prompts[name], sample.token_ids)])
            gaps.append(np.abs(scored - sample.logprobs).max())
            prompts[name] += (*sample.token_ids, 9)
    return float(max(gaps))


def test_peft_reads_the_adapter_and_transformers_the_merged_model(
    tiny: Tiny, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    from peft import PeftModel

    policy = tiny("llama", **LORA)
    policy.update(rows_of(policy))
    policy.save(tmp_path / "saved")
    ids = torch.tensor([[3, 4, 5, 6, 7]])
    theirs = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(tiny_folder("llama"), dtype=torch.float32),
        str(tmp_path / "saved" / "adapter"),
    )
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32)
    assert not any("lora" in name for name, _ in merged.named_parameters())
    for model in (theirs, merged):
        logprobs = model(ids).logits.log_softmax(-1)[0]
        got = [logprobs[2, 6].item(), logprobs[3, 7].item()]
        np.testing.assert_allclose(got, policy.logprobs(REQUEST)[0], atol=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_layers_are_merged_one_at_a_time(tiny: Tiny, tmp_path: Path, kind: str) -> None:
    """What a sampling engine is handed is what a checkpoint holds."""
    policy = tiny(kind, dtype="bfloat16", **LORA)
    policy.update(rows_of(policy))
    policy.save(tmp_path / "saved")
    adapters = policy.network.adapters
    assert adapters is not None
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.bfloat16).state_dict()
    own = {value.data_ptr() for value in policy.network.model.state_dict().values()}
    merged, names = weakref.WeakSet[torch.Tensor](), []
    for name, value in adapters.merged_weights(policy.network.model):
        assert torch.equal(value, saved[name]), name
        names.append(name)
        if value.data_ptr() not in own:
            merged.add(value)
        assert len(merged) <= 2, "the one before is let go of when the next is there"
    assert sorted(names) == sorted(saved)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": {"lr": 1e-2, "warmup_steps": 3, "weight_decay": 0.01}},
        {"optimizer": {"kind": "muon", "lr": 1e-2}, "loss": {"kl": 0.1}},
        {"dtype": "bfloat16", "gradient_checkpointing": True},
        {"optimizer": {"kind": "adamw8bit", "lr": 1e-2}},
    ],
)
def test_resume_is_bitwise(tiny: Tiny, tmp_path: Path, settings: dict[str, Any]) -> None:
    own = {"lora": {"rank": 4}, "mini_batch_rows": 3, **settings}
    straight = tiny(seed=4, **own)
    parts = [rows_of(straight, number) for number in range(4)]
    for part in parts[:2]:
        straight.update(part)
    straight.save(tmp_path / "at2")
    resumed = tiny(seed=4, **own)
    resumed.load(tmp_path / "at2")
    for part in parts[2:]:
        expected, got = straight.update(part), resumed.update(part)
        expected.pop("seconds"), got.pop("seconds")
        assert got == expected
    for which in ("live", "reference"):
        np.testing.assert_array_equal(
            straight.logprobs(REQUEST, which)[0], resumed.logprobs(REQUEST, which)[0]
        )  # type: ignore[arg-type]


def test_gradient_checkpointing_and_smaller_passes_give_the_same_gradient(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.policy.local.optim import Stepper

    caught: list[torch.Tensor] = []

    def spy(self: Stepper, norm: float, scale: float = 1.0) -> float:
        caught.append(torch.cat([w.grad.flatten() for w in self.weights.values() if w.grad is not None]))
        return 0.0

    monkeypatch.setattr(Stepper, "step", spy)
    settings: list[dict[str, Any]] = [
        {}, {"gradient_checkpointing": True}, {"token_budget": 1}, {"merge_rows": "off"},
    ]  # fmt: skip
    for own in settings:
        policy = tiny("gemma3", seed=0, lora={"rank": 4}, loss={"kl": 0.1}, **own)
        rows = rows_of(policy, noise=0.2)
        policy.update(rows)
    for other in caught[1:]:
        assert float((other - caught[0]).norm() / caught[0].norm()) <= 1e-5


def test_dropout_acts_in_supervised_training_only(tiny: Tiny) -> None:
    example = [(np.arange(3, 40), np.ones(37))]
    losses = []
    for dropout in (0.0, 0.5, 0.5):
        policy = tiny(seed=0, lora={"rank": 4, "dropout": dropout}, optimizer={"lr": 1e-2})
        policy.supervised_update(example)
        losses.append(policy.supervised_update(example)["loss"])
        rows = rows_of(policy)
        assert policy.update(rows)["logprob_diff_max"] <= 1e-4, "no dropout on sampled tokens"
    assert losses[0] != losses[1] == losses[2], "it is drawn from the step's number"


def test_full_and_low_rank_checkpoints_are_not_mixed_up(tiny: Tiny, tmp_path: Path) -> None:
    adapted, whole = tiny(**LORA), tiny()
    adapted.save(tmp_path / "lora")
    whole.save(tmp_path / "full")
    with pytest.raises(ConfigError, match=r"saved with policy\.lora"):
        whole.load(tmp_path / "lora")
    with pytest.raises(ConfigError, match=r"saved without policy\.lora"):
        adapted.load(tmp_path / "full")
    with pytest.raises(ConfigError, match="another rank"):
        tiny(lora={"rank": 2}).load(tmp_path / "lora")
    with pytest.raises(ConfigError, match=r"other weights than those of policy\.model"):
        tiny("llama", **LORA).load(tmp_path / "lora")


@pytest.mark.parametrize("targets", [["lm_head"], ["embed_tokens"], ["no_such_layer"]])
def test_targets_that_cannot_be_merged_or_are_not_there_are_refused(tiny: Tiny, targets: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"policy\.lora\.targets"):
        tiny(lora={"rank": 2, "targets": targets})
    assert len(tiny(lora={"rank": 2, "targets": ["q_proj"]})._stepper.weights) == 4


def test_the_8_bit_optimizer_learns_like_adamw_and_resumes_bitwise(tmp_path: Path) -> None:
    models.build_model("llama", intermediate_size=256).save_pretrained(tmp_path / "wide")
    models.write_tokenizer(tmp_path / "wide")
    example = [(np.arange(3, 40), np.ones(37))]

    def policy(kind: str) -> LocalPolicy:
        settings = {"model": str(tmp_path / "wide"), "device": "cpu", "optimizer": {"kind": kind, "lr": 3e-3}}
        return LocalPolicy(LocalPolicySettings.model_validate(settings), seed=0)

    ends, kept = {}, {}
    for kind in ("adamw", "adamw8bit"):
        trained = policy(kind)
        losses = [trained.supervised_update(example)["loss"] for _ in range(12)]
        assert losses[-1] < 0.8 * losses[0]
        ends[kind], kept[kind] = losses[-1], trained._stepper.state_dict()
    assert ends["adamw8bit"] == pytest.approx(ends["adamw"], rel=0.1)
    large = [value for value in kept["adamw8bit"].values() if value.dtype == torch.uint8]
    assert sum(value.numel() for value in large) >= 6 * 2 * 32 * 256, "moments of large matrices are in 8 bit"
    trained.save(tmp_path / "saved")
    resumed = policy("adamw8bit")
    resumed.load(tmp_path / "saved")
    for _ in range(2):
        assert trained.supervised_update(example)["loss"] == resumed.supervised_update(example)["loss"]
    with pytest.raises(ConfigError, match=r"optimizer\.kind"):
        policy("adamw").load(tmp_path / "saved")
