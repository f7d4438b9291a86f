"""The verl policy's settings: what becomes what, what is refused; all of it without verl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnpoint.cli.recipes import find_recipe, list_recipes
from turnpoint.config import ConfigError
from turnpoint.policy.settings import LossSettings, OptimizerSettings, policy_registry
from turnpoint.policy.verl import VerlPolicySettings, with_backend
from turnpoint.policy.verl.__main__ import train_arguments
from turnpoint.policy.verl.translate import MAPPING, pass_through, verl_settings
from turnpoint.policy.verl.unfit import POOL
from turnpoint.training.settings import load_run_config

ADAM = "policy.optimizer={kind: adamw, lr: 0.001}"


def parse(**settings: Any) -> VerlPolicySettings:
    parsed = policy_registry.parse({"kind": "verl", "model": "models/m", **settings})
    assert isinstance(parsed, VerlPolicySettings)
    return parsed


def table(**settings: Any) -> dict[str, Any]:
    found = verl_settings(parse(**settings), context=1024, seed=3)
    return {name.removeprefix("actor_rollout_ref."): value for name, value in found.items()}


def test_the_clip_range_reaches_all_three_names() -> None:
    found = table(loss={"clip": 0.1, "clip_high": 0.3})
    assert [found[f"actor.clip_ratio{end}"] for end in ("", "_low", "_high")] == [0.1, 0.1, 0.3]
    found = table(loss={"clip": 0.1})
    assert found["actor.clip_ratio_high"] == 0.1


def test_without_a_dual_clip_verls_never_bites() -> None:
    assert table()["actor.clip_ratio_c"] >= 1e9
    assert table(loss={"dual_clip": 3.0})["actor.clip_ratio_c"] == 3.0


def test_what_else_follows_from_ours() -> None:
    found = table(
        loss={"kl": 0.02, "ratio": "sequence", "aggregation": "seq-mean-token-mean"},
        optimizer={"lr": 2e-6, "betas": [0.9, 0.99], "grad_clip": 0.5},
        token_budget=512, nodes=2, gpus_per_node=4, tensor_parallel=2, dtype="bfloat16",
    )  # fmt: skip
    assert found["actor.use_kl_loss"] is True
    assert found["actor.kl_loss_coef"] == 0.02
    assert found["actor.policy_loss.loss_mode"] == "gspo"
    assert found["actor.loss_agg_mode"] == "seq-mean-token-mean"
    assert found["actor.optim.lr"] == 2e-6
    assert found["actor.optim.betas"] == [0.9, 0.99]
    assert found["actor.optim.clip_grad"] == 0.5
    assert found["actor.optim.weight_decay"] == 0.0  # verl's own default is not
    assert found["actor.ppo_max_token_len_per_gpu"] == 1024  # at least one sequence
    assert (found["trainer.nnodes"], found["trainer.n_gpus_per_node"]) == (2, 4)
    assert found["rollout.tensor_model_parallel_size"] == 2
    assert found["actor.fsdp_config.mixed_precision.param_dtype"] == "bf16"
    assert found["ref.fsdp_config.model_dtype"] == "bf16"
    assert (
        found["data.max_prompt_length"] + found["data.max_response_length"]
        == found["rollout.max_model_len"]
        == 1024
    )


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"optimizer": {"kind": "muon"}}, "policy.optimizer.kind is muon"),
        ({"optimizer": {"kind": "adamw8bit"}}, "policy.optimizer.kind is adamw8bit"),
        ({"optimizer": {"lr_rest": 0.1}}, "policy.optimizer.lr_rest"),
        ({"optimizer": {"weight_decay": 0.1}}, "policy.optimizer.weight_decay is 0.1"),
        ({"optimizer": {"warmup_steps": 5}}, "policy.optimizer.warmup_steps is 5"),
        ({"loss": {"ratio": "sequence", "dual_clip": 3.0}}, "policy.loss.dual_clip is 3.0"),
        ({"gpus_per_node": 4, "tensor_parallel": 3}, "policy.tensor_parallel is 3"),
        ({"scoring": "servers", "temperature": 0.8}, "policy.scoring is servers"),
        ({"device": "cpu"}, "policy.device is cpu"),
        ({"verl": {"actor.clip_ratio": 0.3}}, "set that instead"),
        ({"verl": {"actor": {"optim": {"lr": 1.0}}}}, "policy.optimizer.lr"),
        ({"verl": {"actor_rollout_ref.rollout.temperature": 0.3}}, "policy.temperature"),
        ({"verl": {"rollout": {"name": "sglang"}}}, "policy.engine"),
        ({"verl": {"trainer": {"nnodes": 2}}}, "policy.nodes"),
        ({"verl": {"actor.optim": 3}}, "set that instead"),
        ({"verl": {"actor.entropy_coeff": 0.1, "actor": {"entropy_coeff": 0.2}}}, "twice"),
        ({"verl": {"rollout.n": 2}}, "method.group"),
        ({"verl": {"trainer.v1.trainer_mode": "sync"}}, "would do nothing here"),
        ({"verl": {"algorithm": {"adv_estimator": "gae"}}}, "advantages are the method's"),
        ({"verl": {"distillation.enabled": True}}, "teachers are scoring's"),
        ({"verl": {"model.lora_rank": 8}}, "backend=local"),
        ({"verl": {"actor.strategy": "megatron"}}, "fsdp2"),
        ({"engine": "sglang"}, "its seed is sampling_seed"),
        ({"engine": "trtllm"}, "set policy.engine=vllm"),
        ({"verl": {"rollout.top_p": 0.9}}, "set the run's rollout.top_p"),
        ({"verl": {"rollout.response_length": 64}}, "rollout.max_response_tokens"),
        ({"verl": {"actor.ppo_micro_batch_size_per_gpu": 4}}, "policy.token_budget"),
        ({"verl": {"ref.log_prob_micro_batch_size_per_gpu": 4}}, "policy.token_budget"),
        ({"verl": {"actor.grad_clip": 0.5}}, "policy.optimizer.grad_clip"),
        ({"verl": {"rollout.checkpoint_engine.backend": "nccl"}}, "straight to the servers"),
        ({"verl": {"rollout.ignore_eos": True}}, "another policy than the trainer's"),
        ({"verl": {"rollout.repetition_penalty": 1.1}}, "another policy than the trainer's"),
        ({"verl": {"rollout": {"engine_kwargs": {"vllm": {"logprobs-mode": "raw"}}}}}, "was sampled from"),
        ({"verl": {"rollout.engine_kwargs.vllm.max_model_len": 99}}, "policy.context_length"),
        ({"verl": {f"{POOL}.tensor_model_parallel_size": 2}}, "scoring.tensor_parallel"),
        ({"verl": {f"{POOL}.max_model_len": 99}}, "scoring.context_length"),
        ({"verl": {f"{POOL}.name": "sglang"}}, "policy.engine"),
        ({"verl": {f"{POOL}.temperature": 0.5}}, "temperature 1"),
        ({"verl": {f"{POOL}.logprobs_mode": "raw_logprobs"}}, "another policy than the trainer's"),
        ({"merge_rows": "trees"}, "merge_rows"),
    ],
)
def test_what_verl_cannot_honour_is_refused_by_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(**settings)
    assert named in str(caught.value)


def test_own_verl_settings_pass_through() -> None:
    given = {
        "rollout.gpu_memory_utilization": 0.4,
        "actor": {"fsdp_config": {"param_offload": True}, "optim": {"weight_decay": 0.01}},
        f"{POOL}.gpu_memory_utilization": 0.8,
        f"{POOL}.engine_kwargs": {"vllm": {"max_num_partial_prefills": 2}},
        "rollout.engine_kwargs.vllm.max_num_partial_prefills": 2,
        "rollout.checkpoint_engine.update_weights_bucket_megabytes": 512,
    }
    assert pass_through(given)[f"{POOL}.gpu_memory_utilization"] == 0.8
    found = table(verl=given)
    assert found["rollout.gpu_memory_utilization"] == 0.4
    assert found["actor.fsdp_config.param_offload"] is True
    assert found["actor.optim.weight_decay"] == 0.01  # where ours is off, verl's may be asked for


def test_every_setting_of_a_loss_or_optimizer_is_in_the_mapping() -> None:
    told = " ".join(MAPPING)
    for section in ("loss", "optimizer"):
        for name in type(getattr(parse(), section)).model_fields:
            assert name in told or name == "lr_rest", f"{section}.{name}"


# ---- backend=verl ------------------------------------------------------------------------------------------------


def test_a_local_policy_moves_to_verl() -> None:
    data = {
        "policy": {"kind": "local", "model": "m", "threads": 4, "merge_rows": "trees", "token_budget": 99}
    }
    moved = with_backend({**data, "backend": "verl"})
    assert moved == {"policy": {"kind": "verl", "model": "m", "token_budget": 99}}
    assert with_backend(data) == data == with_backend({**data, "backend": "local"})


def test_a_setting_of_the_local_policy_alone_that_says_its_default_is_left_out() -> None:
    data = {"backend": "verl", "policy": {"kind": "local", "model": "m", "lora": None}}
    assert with_backend(data) == {"policy": {"kind": "verl", "model": "m"}}


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (["quickstart", "train.steps=2"], ["train", "quickstart", "train.steps=2", "backend=verl"]),
        (["--dry-run", "quickstart"], ["train", "--dry-run", "quickstart", "backend=verl"]),
        (["--help"], ["train", "--help"]),
        ([], ["train"]),
    ],
)
def test_the_module_is_the_command_with_another_backend(given: list[str], arguments: list[str]) -> None:
    assert train_arguments(given) == arguments


def test_the_built_in_agent_is_made_first() -> None:
    config = load_run_config(
        find_recipe("pivoarl_household"), ["backend=verl", ADAM, "policy.gpus_per_node=2"]
    )
    policy = config.policy
    assert isinstance(policy, VerlPolicySettings)
    assert policy.gpus == 2
    assert policy.start is not None
    assert policy.start.kind == "small"
    assert policy.start.warm_start.demonstrations == 1500  # type: ignore[attr-defined]
    assert policy.context_length == policy.start.context_length  # type: ignore[attr-defined]
    assert policy.mini_batch_rows == 256
    assert config.model_validate(config.model_dump(mode="json")).policy == policy


def test_muon_of_the_built_in_agent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"policy.optimizer.kind is muon.*policy.optimizer.kind=adamw"):
        load_run_config(find_recipe("quickstart"), ["backend=verl"])


ADAPTED = ("smollm2_household",)
"""Recipes of a chat model with adapters of the local policy."""


@pytest.mark.parametrize("recipe", [path.stem for path in list_recipes() if path.stem not in ADAPTED])
def test_every_recipe_has_a_translation(recipe: str) -> None:
    config = load_run_config(find_recipe(recipe), ["backend=verl", ADAM, "policy.loss.kl=0"])
    assert config.policy.kind == "verl"


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"backend": "verlx", "policy": {"kind": "local"}}, "backend is 'verlx'"),
        ({"backend": "verl"}, "policy section"),
        ({"backend": "verl", "policy": {"kind": "vllm", "model": "m"}}, "'vllm'"),
        ({"backend": "verl", "policy": {"kind": "local", "model": "m", "lora": {"rank": 8}}}, "policy.lora"),
    ],
)
def test_what_cannot_move_is_refused(data: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=r".") as caught:
        with_backend(data)
    assert named in str(caught.value)


def test_recomputed_logprobs_must_be_the_trainers() -> None:
    own = ["backend=verl", ADAM, "train.recompute_old_logprobs=true"]
    with pytest.raises(ConfigError, match=r"policy\.scoring=actor"):
        load_run_config(find_recipe("grpo_household"), own)
    assert load_run_config(find_recipe("grpo_household"), [*own, "policy.scoring=actor"])


def test_an_unknown_setting_is_still_found() -> None:
    with pytest.raises(ConfigError, match="mini_batch_rows"):
        load_run_config(find_recipe("grpo_household"), ["backend=verl", ADAM, "policy.mini_batch_row=3"])


def test_without_verl_the_error_says_what_to_install() -> None:
    pytest.importorskip("torch")
    try:
        import verl  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ConfigError, match=r"turnpoint\[verl\]"):
            parse().build(seed=0)


def test_the_page_on_verl_names_every_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verl.md").read_text()
    missing = [
        name
        for name in VerlPolicySettings.model_fields
        if f"`{name}`" not in page and f"policy.{name}" not in page
    ]
    assert set(missing) <= {"kind", "device", "merge_rows", "optimizer", "loss", "start"}
    for section in (LossSettings, OptimizerSettings):
        for name in section.model_fields:
            assert name in page or name == "lr_rest", name
