"""Settings of the verl policy; free of verl, so that configs can be read and checked without it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from turnpoint.config import ConfigError
from turnpoint.policy.settings import LossSettings, OptimizerSettings, PolicySettings, policy_registry
from turnpoint.policy.sources import model_folder
from turnpoint.policy.verl.unfit import refuse_unfit

if TYPE_CHECKING:
    from turnpoint.envs import EnvSuite
    from turnpoint.policy.verl.policy import VerlPolicy
    from turnpoint.prompts import Prompter


class VerlPolicySettings(PolicySettings):
    """A Hugging Face causal language model trained by verl: FSDP2 workers and rollout servers under Ray."""

    kind: Literal["verl"] = "verl"
    model: str = ""
    """Folder of a Hugging Face model with its tokenizer (or what ``local`` takes), reachable from every node; empty =
    the one of ``start``."""
    start: Annotated[SerializeAsAny[PolicySettings], BeforeValidator(policy_registry.parse)] | None = None
    """A policy section whose model is made first and then trained here (the built-in agent's warm start)."""
    nodes: PositiveInt = 1
    """Machines of the Ray cluster that train and sample."""
    gpus_per_node: PositiveInt = 1
    """GPUs of each; every one holds a shard of the trainer and a share of a rollout server."""
    tensor_parallel: PositiveInt = 1
    """GPUs that one rollout server spans; there are ``nodes * gpus_per_node / tensor_parallel`` servers."""
    engine: str = "vllm"
    """verl's name of the rollout server: ``vllm``, or one from ``external_modules``."""
    device: Literal["cuda", "cpu"] = "cuda"
    """``cpu`` needs a platform from ``external_modules``: it is for tests."""
    external_modules: list[str] = Field(default_factory=list)
    """Modules that every process of verl imports first (platforms, rollout servers, losses)."""
    ray_address: str | None = None
    """Address of a running Ray cluster (``auto`` finds it); None = the one of RAY_ADDRESS, or a cluster of its own."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of forward and backward passes and of the servers; weights and optimizer state are kept in float32."""
    context_length: PositiveInt | None = None
    """Longest prompt plus response in tokens; None = what the model's config says, at most 32,768."""
    temperature: PositiveFloat = 1.0
    """Sampling and training temperature: log-probs of both are taken at it."""
    scoring: Literal["auto", "servers", "actor"] = "auto"
    """Who computes live log-probs: the rollout servers (checked against the trainer when the policy is built), or
    the trainer; ``auto`` = the servers at temperature 1, where theirs are those of the policy, and else the trainer."""
    monitor_rows: NonNegativeInt = 16
    """Rows of each update whose old log-probs are compared with the trainer's before it (``logprob_diff_mean`` and
    ``logprob_diff_max`` in the metrics); 0 = none."""
    mini_batch_rows: PositiveInt | None = None
    """Rows per optimizer step; None = all rows in one step."""
    token_budget: PositiveInt = 16384
    """Most tokens in one forward-backward pass of one GPU."""
    merge_rows: Literal["off", "chains"] = "chains"
    """``chains`` trains rows whose prompts extend each other as one sequence (same loss and gradient, fewer tokens);
    only where the loss is a mean over tokens."""
    gradient_checkpointing: bool = False
    """Trade compute for memory in the update."""
    keep_reference: bool = False
    """Keep a reference model with the initial weights; always so if ``loss.kl`` > 0."""
    loss: LossSettings = LossSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    call_seconds: PositiveFloat | None = 1800.0
    """Longest wait for one answer of a server; None = no limit."""
    server_restarts: NonNegativeInt = 3
    """How often in a run a rollout server that died is started again and its calls repeated."""
    verl: dict[str, Any] = Field(default_factory=dict)
    """verl's own settings, nested or by dotted name; those that follow from the settings above are refused."""

    @model_validator(mode="after")
    def _fits_verl(self) -> Self:
        refuse_unfit(self)
        return self

    @property
    def gpus(self) -> int:
        """Processes that train."""
        return self.nodes * self.gpus_per_node

    @property
    def with_reference(self) -> bool:
        """Whether there is a reference model."""
        return self.keep_reference or self.loss.kl > 0

    @property
    def scores_by_servers(self) -> bool:
        """Whether live log-probs are the rollout servers'."""
        return self.scoring == "servers" or (self.scoring == "auto" and self.temperature == 1.0)

    def prepare(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> PolicySettings:
        """Make the model of ``start``, or find it in the cache; the folder of a model that is no folder."""
        if self.model or self.start is None:
            folder = model_folder(self.model, cache) if self.model else ""
            return self.model_copy(update={"model": str(folder)})
        made = self.start.prepare(suite, prompter, cache=cache, seed=seed)
        return self.model_copy(update={"model": str(Path(getattr(made, "model", "")).resolve())})

    def without_learning(self) -> PolicySettings:
        still = {"lr": 0.0, "weight_decay": 0.0}
        return self.model_copy(update={"optimizer": self.optimizer.model_copy(update=still)})

    def build(self, *, seed: int) -> VerlPolicy:
        if not self.model:
            raise ConfigError(
                "policy.model is empty; set it to the folder of a Hugging Face model, or policy.start to a policy "
                "whose model is made first (start.kind: small)"
            )
        try:
            from turnpoint.policy.verl.policy import VerlPolicy

            return VerlPolicy(self, seed=seed)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"policy.kind is verl, but {error.name} is not installed; pip install 'turnpoint[verl]' on every node"
            ) from error
