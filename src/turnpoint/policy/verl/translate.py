"""From our settings to verl's: a flat table of dotted names.

``MAPPING`` says in words what becomes what; ``verl_settings`` does it. Nothing here imports verl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnpoint.config import ConfigError

if TYPE_CHECKING:
    from turnpoint.policy.verl.settings import VerlPolicySettings

ACTOR, ROLLOUT, MODEL, REF = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model", "ref"))
NO_DUAL_CLIP = 1e9
"""verl always applies a dual clip; at this bound it never bites."""
ROOTS = (
    "actor_rollout_ref",
    "trainer",
    "data",
    "algorithm",
    "distillation",
    "ray_kwargs",
    "reward",
    "critic",
)
"""Sections of verl's config that a pass-through may name in full; other names are taken below ``actor_rollout_ref``."""

MAPPING: dict[str, str] = {
    "model": f"{MODEL}.path",
    "nodes, gpus_per_node": "trainer.nnodes, trainer.n_gpus_per_node",
    "tensor_parallel": f"{ROLLOUT}.tensor_model_parallel_size",
    "engine": f"{ROLLOUT}.name",
    "dtype": f"{ACTOR}.fsdp_config.mixed_precision, {REF}.fsdp_config.mixed_precision, {ROLLOUT}.dtype",
    "context_length": f"{ROLLOUT}.max_model_len; data.max_prompt_length + data.max_response_length",
    "temperature": f"{ROLLOUT}.temperature, and in every call",
    "token_budget": f"{ACTOR}.ppo_max_token_len_per_gpu (use_dynamic_bsz), at least the context length",
    "mini_batch_rows": "one update_actor call for each mini-batch; mini_batch_size = its rows",
    "gradient_checkpointing": f"{MODEL}.enable_gradient_checkpointing",
    "loss.clip, loss.clip_high": f"{ACTOR}.clip_ratio, clip_ratio_low, clip_ratio_high",
    "loss.dual_clip": f"{ACTOR}.clip_ratio_c; off = {NO_DUAL_CLIP:g}",
    "loss.ratio": f"{ACTOR}.policy_loss.loss_mode: token = vanilla, sequence = gspo",
    "loss.aggregation": f"{ACTOR}.loss_agg_mode",
    "loss.kl": f"{ACTOR}.use_kl_loss, kl_loss_coef, kl_loss_type=low_var_kl (k3, cut at 10)",
    "loss.drop_zero_advantage_rows": "such rows are not sent",
    "optimizer.kind": f"{ACTOR}.optim.optimizer: adamw only",
    "optimizer.lr, betas, grad_clip": f"{ACTOR}.optim.lr, betas, clip_grad",
    "optimizer.weight_decay": f"{ACTOR}.optim.weight_decay: 0 only (verl also decays norms and biases)",
    "optimizer.warmup_steps": "0 only (verl's warm-up begins with a step of rate 0)",
    "keep_reference": "role actor_rollout_ref",
    "seed": f"{ROLLOUT}.seed, {ACTOR}.fsdp_config.seed; every call has a seed of its own",
}
"""What becomes what, for the documentation and for messages."""


def verl_settings(settings: VerlPolicySettings, *, context: int, seed: int) -> dict[str, Any]:
    """verl's settings by dotted name, over the defaults of its trainer; ``context`` is the context length."""
    fixed, usual = tables(settings, context=context, seed=seed)
    return usual | pass_through(settings.verl) | fixed


def pass_through(given: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own verl settings by full dotted name. Raises ``ConfigError`` for names twice."""
    result: dict[str, Any] = {}
    for name, value in _flat(given, ""):
        if name.split(".")[0] not in ROOTS:
            name = f"actor_rollout_ref.{name}"
        if name in result:
            raise ConfigError(f"policy.verl sets {name} twice; leave one out")
        result[name] = value
    return result


def _flat(given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def tables(settings: VerlPolicySettings, *, context: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that follow from ours, and those that are usual here but may be passed otherwise."""
    fixed = {
        f"{MODEL}.path": str(Path(settings.model).resolve()),
        f"{MODEL}.enable_gradient_checkpointing": settings.gradient_checkpointing,
        "trainer.nnodes": settings.nodes,
        "trainer.n_gpus_per_node": settings.gpus_per_node,
        "trainer.device": settings.device,
        f"{ROLLOUT}.name": settings.engine,
        f"{ROLLOUT}.tensor_model_parallel_size": settings.tensor_parallel,
        f"{ROLLOUT}.dtype": settings.dtype,
        f"{ROLLOUT}.max_model_len": context,
        f"{ROLLOUT}.temperature": settings.temperature,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.seed": seed,
        **_actor(settings, context),
    }
    usual = {
        "data.max_prompt_length": context // 2,
        "data.max_response_length": context - context // 2,
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.fsdp_config.strategy": "fsdp2",
        f"{REF}.fsdp_config.strategy": "fsdp2",
        f"{ACTOR}.fsdp_config.seed": seed,
        f"{ACTOR}.optim.weight_decay": settings.optimizer.weight_decay,
        f"{ACTOR}.optim.lr_scheduler_type": "constant",
        f"{ACTOR}.entropy_coeff": 0.0,
        f"{ROLLOUT}.free_cache_engine": settings.device != "cpu",
    }
    if settings.device == "cpu":
        usual |= {
            f"{MODEL}.use_remove_padding": False,
            f"{MODEL}.override_config.attn_implementation": "sdpa",
            f"{ACTOR}.use_torch_compile": False,
            f"{ACTOR}.fsdp_config.use_torch_compile": False,
            f"{REF}.fsdp_config.use_torch_compile": False,
        }
    return fixed, usual


def _actor(settings: VerlPolicySettings, context: int) -> dict[str, Any]:
    loss, optimizer = settings.loss, settings.optimizer
    kind = "bf16" if settings.dtype == "bfloat16" else "fp32"
    precision = {"param_dtype": kind, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    result: dict[str, Any] = {
        f"{ACTOR}.clip_ratio": loss.clip,
        f"{ACTOR}.clip_ratio_low": loss.clip,  # clip_ratio alone changes nothing: both have defaults of their own
        f"{ACTOR}.clip_ratio_high": loss.clip if loss.clip_high is None else loss.clip_high,
        f"{ACTOR}.clip_ratio_c": NO_DUAL_CLIP if loss.dual_clip is None else loss.dual_clip,
        f"{ACTOR}.policy_loss.loss_mode": "gspo" if loss.ratio == "sequence" else "vanilla",
        f"{ACTOR}.loss_agg_mode": loss.aggregation,
        f"{ACTOR}.use_kl_loss": loss.kl > 0,
        f"{ACTOR}.kl_loss_coef": loss.kl,
        f"{ACTOR}.kl_loss_type": "low_var_kl",
        f"{ACTOR}.ppo_epochs": 1,
        f"{ACTOR}.shuffle": False,
        f"{ACTOR}.ppo_mini_batch_size": settings.gpus,  # what is sent is one mini-batch; this only passes verl's check
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": max(settings.token_budget, context),
        f"{ACTOR}.optim.optimizer": "AdamW",
        f"{ACTOR}.optim.lr": optimizer.lr,
        f"{ACTOR}.optim.betas": list(optimizer.betas),
        f"{ACTOR}.optim.clip_grad": optimizer.grad_clip,
        f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{ACTOR}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{REF}.fsdp_config.model_dtype": kind,
    }
    for part in (ACTOR, REF):
        result |= {f"{part}.fsdp_config.mixed_precision.{key}": value for key, value in precision.items()}
    return result
