"""What verl cannot honour, refused by name before a process starts. Nothing here imports verl."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from turnpoint.config import ConfigError
from turnpoint.policy.verl.translate import ACTOR, MAPPING, MODEL, REF, ROLLOUT, pass_through, tables

if TYPE_CHECKING:
    from turnpoint.policy.verl.settings import VerlPolicySettings

ENGINES = {
    "sglang": "names the settings of a call otherwise (its seed is sampling_seed, and it has no detokenize), so that "
    "it would refuse every one",
    "trtllm": "cuts replies at a length of its own and gives no log-probs of given tokens",
}
"""Rollout servers of verl 0.9.1 that cannot answer the calls made here, and why."""

POOL = "distillation.teacher_models.teacher_model.inference"
"""What may be passed on for the servers of the teacher pool."""
_ARGUMENTS = "engine_kwargs.vllm"  # they lie over all that verl gives to vLLM itself
OURS = {
    f"{ROLLOUT}.{_ARGUMENTS}.tensor_parallel_size": "policy.tensor_parallel",
    f"{ROLLOUT}.{_ARGUMENTS}.max_model_len": "policy.context_length",
    f"{ROLLOUT}.{_ARGUMENTS}.dtype": "policy.dtype",
    f"{POOL}.name": "policy.engine",
    f"{POOL}.tensor_model_parallel_size": "scoring.tensor_parallel",
    f"{POOL}.{_ARGUMENTS}.tensor_parallel_size": "scoring.tensor_parallel",
    f"{POOL}.max_model_len": "scoring.context_length",
    f"{POOL}.{_ARGUMENTS}.max_model_len": "scoring.context_length",
    f"{POOL}.prompt_length": "scoring.context_length",
    f"{POOL}.response_length": "scoring.context_length",
}
"""Names that follow from a setting of ours, besides those of ``translate.tables``."""

_LENGTHS = "every call carries its own, from rollout.max_response_tokens and the context length"
_SIZES = "passes are filled by tokens: set policy.token_budget"
_SHARED = "rollout servers share the trainer's GPUs: set policy.nodes and policy.gpus_per_node"
_WHOLE = "this adapter writes whole models; train adapters with backend=local"
UNUSED = {
    "trainer": "the training loop is turnpoint's: see train, eval and loggers",
    "data": "tasks come from env, lengths from policy.context_length and rollout.max_response_tokens",
    "algorithm": "advantages are the method's",
    "reward": "rewards are the environment's",
    "critic": "no method has a critic",
    "distillation": f"teachers are scoring's; only {POOL}.… is passed on",
    f"{POOL}.temperature": "teachers score at temperature 1",
    f"{ROLLOUT}.n": "how many episodes a task has is the method's (method.group)",
    f"{ROLLOUT}.top_p": "every call carries its own: set the run's rollout.top_p",
    f"{ROLLOUT}.top_k": "every call carries its own: set the run's rollout.top_k",
    f"{ROLLOUT}.do_sample": "every call carries its own temperature: set the run's rollout.temperature",
    f"{ROLLOUT}.prompt_length": _LENGTHS,
    f"{ROLLOUT}.response_length": _LENGTHS,
    f"{ROLLOUT}.nnodes": _SHARED,
    f"{ROLLOUT}.n_gpus_per_node": _SHARED,
    f"{ROLLOUT}.checkpoint_engine.backend": "weights go straight to the servers on the same GPUs (naive)",
    f"{ROLLOUT}.log_prob_use_dynamic_bsz": _SIZES,
    f"{ROLLOUT}.log_prob_micro_batch_size": _SIZES,
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": _SIZES,
    f"{ROLLOUT}.agent": "episodes are played by turnpoint",
    f"{ROLLOUT}.multi_turn": "episodes are played by turnpoint",
    f"{ROLLOUT}.val_kwargs": "evaluation is eval's",
    f"{MODEL}.lora": _WHOLE,
    f"{MODEL}.lora_rank": _WHOLE,
    f"{MODEL}.lora_adapter_path": _WHOLE,
    f"{ACTOR}.strategy": "this adapter reads FSDP's checkpoints (fsdp2)",
    f"{ACTOR}.grad_clip": "verl's engine reads actor.optim.clip_grad: set policy.optimizer.grad_clip",
    f"{ACTOR}.data_loader_seed": "mini-batches are drawn by turnpoint",
    f"{ACTOR}.ppo_micro_batch_size": _SIZES,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": _SIZES,
    f"{REF}.log_prob_use_dynamic_bsz": _SIZES,
    f"{REF}.log_prob_micro_batch_size": _SIZES,
    f"{REF}.log_prob_micro_batch_size_per_gpu": _SIZES,
}
"""Sections and names of verl's config that nothing here would read, or that it cannot work with, and why."""

_REPORTED = "log-probs must be those of the distribution that was sampled from"
OFF_POLICY = {
    "repetition_penalty": "the trainer's log-probs know no penalty",
    "ignore_eos": "a turn ends with the model's own end tokens",
    "logprobs_mode": _REPORTED,
    f"{_ARGUMENTS}.logprobs_mode": _REPORTED,
    f"{_ARGUMENTS}.logits_processors": "the trainer's log-probs know no such processors",
}
"""Names of servers, the pool's too, with which they would sample or score another policy than the trainer's."""


def refuse_unfit(settings: VerlPolicySettings) -> None:
    """Raise ``ConfigError`` for what verl cannot honour, with the setting and the way out."""
    for fault in _faults(settings):
        raise ConfigError(fault)
    fixed, _ = tables(settings, context=settings.context_length or 1, seed=0)
    for name in pass_through(settings.verl):
        if wrong := _fault_of(name.replace("-", "_"), fixed):  # vLLM takes its arguments in either form
            raise ConfigError(f"policy.verl sets {name}, {wrong}")


def _fault_of(name: str, fixed: Iterable[str]) -> str | None:
    """What is wrong with passing ``name`` on; None if nothing is."""
    for theirs, ours in ({theirs: _source(theirs) for theirs in fixed} | OURS).items():
        if _within(name, theirs) or (theirs in fixed and _within(theirs, name)):
            return f"which follows from turnpoint's own settings ({ours}); set that instead"
    for last, why in OFF_POLICY.items():
        if _within(name, f"{ROLLOUT}.{last}") or _within(name, f"{POOL}.{last}"):
            return (
                f"with which servers sample or score another policy than the trainer's: {why}; leave it out"
            )
    for unused, why in UNUSED.items():
        if _within(name, unused) and not (unused == "distillation" and _within(name, POOL)):
            return f"which would do nothing here: {why}"
    return None


def _within(name: str, section: str) -> bool:
    """Whether a dotted name is ``section`` or lies below it."""
    return name == section or name.startswith(section + ".")


def _faults(settings: VerlPolicySettings) -> Iterator[str]:
    optimizer, loss = settings.optimizer, settings.loss
    own = f"policy.verl={{{ACTOR}.optim."
    if why := ENGINES.get(settings.engine):
        yield f"policy.engine is {settings.engine}, which {why}; set policy.engine=vllm"
    if optimizer.kind != "adamw":
        yield (
            f"policy.optimizer.kind is {optimizer.kind}, which verl does not have; "
            "set policy.optimizer.kind=adamw with a rate of its own (policy.optimizer.lr=1e-3 for the built-in agent)"
        )
    if optimizer.lr_rest is not None:
        yield "policy.optimizer.lr_rest is for muon, which verl does not have; leave it out"
    if optimizer.weight_decay > 0:
        yield (
            f"policy.optimizer.weight_decay is {optimizer.weight_decay}: it leaves norms and biases alone, and verl "
            f"decays them too; set it to 0, or take verl's: {own}weight_decay: {optimizer.weight_decay}}}"
        )
    if optimizer.warmup_steps > 0:
        yield (
            f"policy.optimizer.warmup_steps is {optimizer.warmup_steps}: verl's warm-up begins with a step of rate 0; "
            f"set it to 0, or take verl's: {own}lr_warmup_steps: {optimizer.warmup_steps}}}"
        )
    if loss.ratio == "sequence" and loss.dual_clip is not None:
        yield (
            f"policy.loss.dual_clip is {loss.dual_clip}, but verl's sequence ratio (gspo) has no dual clip; set it to "
            "null, or policy.loss.ratio=token"
        )
    if settings.gpus % settings.tensor_parallel:
        yield (
            f"policy.tensor_parallel is {settings.tensor_parallel}, which does not divide the {settings.gpus} GPUs of "
            "policy.nodes * policy.gpus_per_node; set a divisor"
        )
    if settings.scoring == "servers" and settings.temperature != 1.0:
        yield (
            f"policy.scoring is servers, whose log-probs of given tokens are those at temperature 1, but "
            f"policy.temperature is {settings.temperature}; set policy.scoring=actor (or auto)"
        )
    if settings.device == "cpu" and not settings.external_modules:
        yield (
            "policy.device is cpu, for which verl has no platform; name a module that registers one in "
            "policy.external_modules (turnpoint.testing.verl_cpu for tests), or set policy.device=cuda"
        )


def _source(verl_name: str) -> str:
    """The setting of ours that a verl name comes from, for messages."""
    last = verl_name.rsplit(".", 1)[-1]
    for ours, theirs in MAPPING.items():
        if verl_name in theirs or last in theirs.replace(",", " ").replace(":", " ").split():
            return f"policy.{ours.split(',')[0]}"
    near = difflib.get_close_matches(last, MAPPING, n=1, cutoff=0.4)
    return f"policy.{near[0]}" if near else "see docs/verl.md"
