"""Settings of the policy whose rollouts vLLM samples; free of torch and vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from turnpoint.policy.settings import LocalPolicySettings

if TYPE_CHECKING:
    from turnpoint.policy.vllm.policy import VllmPolicy

FIXED = frozenset(
    {
        "model", "tokenizer", "dtype", "max_model_len", "seed", "gpu_memory_utilization", "max_num_seqs",
        "enforce_eager", "enable_sleep_mode", "logprobs_mode", "generation_config", "enable_prefix_caching",
        "trust_remote_code", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
        "speculative_config", "spec_method", "spec_model", "quantization", "logits_processors",
    }
)  # fmt: skip
"""Arguments of the engine that have a setting here, or that the sampler's log-probs depend on."""

MEAN_BOUND = {"float32": 1e-3, "bfloat16": 0.05}
"""Mean difference of log-probs in nats that kernels and rounding may leave, by the engine's data type."""


class VllmPolicySettings(LocalPolicySettings):
    """A Hugging Face causal language model that learns in this process, as ``local`` does, and whose rollouts are
    sampled by a vLLM engine in the same process; needs ``pip install 'turnpoint[vllm]'``."""

    kind: Literal["vllm"] = "vllm"  # type: ignore[assignment]
    engine_dtype: Literal["float32", "bfloat16"] | None = None
    """Data type of the engine's weights; null = ``dtype``."""
    gpu_memory: float = Field(default=0.45, gt=0.0, lt=1.0)
    """Share of the GPU's memory that the engine takes for weights and key-value cache; the trainer needs the rest."""
    max_sequences: PositiveInt = 256
    """Most calls that are sampled at a time; more wait."""
    eager: bool = False
    """Run without CUDA graphs: starts faster, samples slower."""
    sleep_level: Literal[0, 1, 2] | None = None
    """What the engine gives up while the trainer updates: 0 = nothing, 1 = its weights move to main memory and its
    cache is dropped, 2 = both are dropped; null = 1 on a GPU and 0 on a CPU."""
    monitor_calls: NonNegativeInt = 16
    """Calls of each step whose log-probs the trainer takes again before it updates, to compare them; 0 = none."""
    max_logprob_diff: PositiveFloat | None = None
    """Largest mean difference between sampler and trainer, in nats per token; null = 0.001 in float32, 0.05 in
    bfloat16."""
    on_mismatch: Literal["stop", "warn"] = "stop"
    """What a larger difference does: end the run before the update, or warn and count it."""
    engine_options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of ``vllm.LLM``, for example ``{"kv_cache_dtype": "fp8"}``."""

    @field_validator("engine_options")
    @classmethod
    def _no_own_arguments(cls, options: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(FIXED & options.keys())
        if taken:
            raise ValueError(
                f"must not set {', '.join(taken)}: a setting of policy does it, or the log-probs that are trained on "
                "depend on it"
            )
        return options

    @property
    def sampler_dtype(self) -> str:
        """Data type of the engine."""
        return self.engine_dtype or self.dtype

    @property
    def bound(self) -> float:
        """Mean difference of log-probs, in nats, above which sampler and trainer are not the same model."""
        return self.max_logprob_diff or MEAN_BOUND[self.sampler_dtype]

    def build(self, *, seed: int) -> VllmPolicy:  # type: ignore[override]
        from turnpoint.policy.vllm.policy import VllmPolicy

        return VllmPolicy(self, seed=seed)
