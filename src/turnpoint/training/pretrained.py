"""A chat model as a ``policy`` section that is first trained on demonstrations of the environment's oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from turnpoint.envs import EnvSuite
from turnpoint.policy.settings import LocalPolicySettings, OptimizerSettings, PolicySettings
from turnpoint.policy.sources import weights_name
from turnpoint.prompts import Prompter
from turnpoint.training.demonstrator import DemonstrationSettings
from turnpoint.training.sft import SftSettings
from turnpoint.training.small_agent import WarmStartSettings


class ChatWarmStartSettings(WarmStartSettings):
    """Supervised training of a language model on demonstrations, with its own chat template."""

    demonstrations: int = 200
    """How many are played on tasks of the split ``train``; 0 = the model starts as it is."""
    play: DemonstrationSettings = DemonstrationSettings(noise=0.1, hinted=0.0)
    """How they deviate from the oracle."""
    sft: SftSettings = SftSettings(batch_tokens=4096, observation_weight=0.0)
    """How they are trained on."""
    optimizer: OptimizerSettings = OptimizerSettings(lr=2e-5, betas=(0.9, 0.999))
    """Optimizer of the warm start alone; adapters need a rate about twenty times as large."""


class PretrainedPolicySettings(LocalPolicySettings):
    """A chat model that cannot play yet: it sees some demonstrations before the run's own training.

    With ``lora`` the warm start trains adapters too and merges them, so that the run's own adapters begin anew and the
    reference policy is the warm-started model. The result is kept in the cache folder.
    """

    kind: Literal["pretrained"] = "pretrained"  # type: ignore[assignment]
    warm_start: ChatWarmStartSettings = ChatWarmStartSettings()
    """Supervised training before the run."""

    def prepare(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> PolicySettings:
        """Warm-start the model, or find the result; raises ``ConfigError`` if there is no oracle to demonstrate."""
        from turnpoint.training.warm_start import ProgressLines, cached_folder, train_on_demonstrations

        found = self._converted(suite, prompter, cache, seed)
        if not self.warm_start.demonstrations:
            return found
        local = LocalPolicySettings(
            **{
                name: getattr(found, name)
                for name in ("model", "dtype", "device", "threads", "context_length")
            },
            token_budget=self.token_budget,
            gradient_checkpointing=self.gradient_checkpointing,
            lora=self.lora,
            optimizer=self.warm_start.optimizer,
        )
        folder = cached_folder(
            self._folder(found, suite, prompter, cache, seed),
            lambda fresh: train_on_demonstrations(
                local, self.warm_start, suite, prompter, seed, fresh, ProgressLines()
            ),
        )
        return found.model_copy(update={"model": str(folder)})

    def made(self, suite: EnvSuite, prompter: Prompter, *, cache: Path, seed: int) -> bool:
        """Whether ``prepare`` would find the warm-started model instead of making it."""
        from turnpoint.training.warm_start import REPORT

        found = self._converted(suite, prompter, cache, seed)
        return (self._folder(found, suite, prompter, cache, seed) / REPORT).is_file()

    def _converted(
        self, suite: EnvSuite, prompter: Prompter, cache: Path, seed: int
    ) -> PretrainedPolicySettings:
        found = super().prepare(suite, prompter, cache=cache, seed=seed)
        assert isinstance(found, PretrainedPolicySettings)
        return found

    def _folder(
        self, found: LocalPolicySettings, suite: EnvSuite, prompter: Prompter, cache: Path, seed: int
    ) -> Path:
        """Where the cache keeps the warm-started model: a name of everything it depends on."""
        from turnpoint.training.warm_start import FORMAT, hash_of, shown_by

        name = hash_of(
            {
                "format": FORMAT,
                "model": weights_name(Path(found.model)),
                "lora": None if self.lora is None else self.lora.model_dump(mode="json"),
                "numbers": [self.dtype, self.context_length],
                "warm_start": self.warm_start.model_dump(mode="json"),
                "prompt": prompter.settings.model_dump(mode="json"),
                **shown_by(suite, prompter, self.warm_start, seed),
            }
        )
        return cache / "pretrained" / name
