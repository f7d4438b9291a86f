"""The built-in agent as a ``policy`` section: its size, and how it is warm-started before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from turnpoint.config import ConfigError, Settings
from turnpoint.envs import EnvSuite
from turnpoint.policy.settings import LocalPolicySettings, OptimizerSettings, PolicySettings
from turnpoint.prompts import Prompter
from turnpoint.training.demonstrator import DemonstrationSettings
from turnpoint.training.sft import SftSettings

if TYPE_CHECKING:
    from turnpoint.policy.local import LocalPolicy


class WarmStartSettings(Settings):
    """Supervised training on demonstrations, before the run's own training."""

    demonstrations: NonNegativeInt = 2000
    """How many are played on tasks of the split ``train``; 0 = the agent starts untrained."""
    play: DemonstrationSettings = DemonstrationSettings(hinted=0.3)
    """How they deviate from the oracle."""
    sft: SftSettings = SftSettings(batch_tokens=2048, hints="inline")
    """How they are trained on."""
    optimizer: OptimizerSettings = OptimizerSettings(kind="muon", lr=0.03, lr_rest=0.004)
    """Optimizer of the warm start alone."""


class SmallPolicySettings(LocalPolicySettings):
    """A tiny word-level Qwen3 made by code and warm-started on demonstrations; needs a closed language and an
    oracle. The result is kept in the cache folder and reused while nothing that matters changes."""

    kind: Literal["small"] = "small"  # type: ignore[assignment]
    model: str = ""
    """Folder of an agent made before; empty = make one."""
    layers: PositiveInt = 2
    """Transformer layers."""
    width: PositiveInt = 128
    """Width of the residual stream."""
    heads: PositiveInt = 4
    """Attention heads."""
    kv_heads: PositiveInt = 2
    """Key-value heads."""
    ffn: PositiveInt = 384
    """Width of the feed-forward layers."""
    max_vocabulary: PositiveInt = 1000
    """Most words; more is an error, as the agent cannot learn an open language."""
    context_length: PositiveInt = Field(default=2048)
    """Positions of the model; an episode ends where its next prompt would not fit."""
    optimizer: OptimizerSettings = OptimizerSettings(kind="muon", lr=3e-3)
    """How the weights move in the run's own training."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """Supervised training before the run."""

    def prepare(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> PolicySettings:
        """Make the agent, or find it in the cache; raises ``ConfigError`` if the environment does not allow it."""
        if self.model:
            return self
        from turnpoint.training.warm_start import warm_started_folder

        folder = warm_started_folder(self, suite, prompter, cache, seed)
        return self.model_copy(update={"model": str(folder)})

    def made(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> bool:
        """Whether ``prepare`` would find the warm-started agent instead of making it."""
        from turnpoint.training.warm_start import REPORT, small_folder

        return bool(self.model) or (small_folder(self, suite, prompter, cache, seed) / REPORT).is_file()

    def build(self, *, seed: int) -> LocalPolicy:
        if not self.model:
            raise ConfigError(
                "the built-in agent has not been made yet; call prepare(suite, prompter, ...) first, or set "
                "policy.model to the folder of an agent made before"
            )
        return super().build(seed=seed)
