"""The run config: every section of a recipe, typed."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from turnpoint.config import ConfigError, Settings, apply_overrides, explain, load_yaml
from turnpoint.envs import EnvSettings, env_registry
from turnpoint.methods import MethodSettings, method_registry
from turnpoint.policy.settings import PolicySettings, policy_registry
from turnpoint.policy.verl import with_backend
from turnpoint.prompts import PromptSettings
from turnpoint.rollouts import RolloutSettings
from turnpoint.teachers.registry import TeacherSettings, teacher_registry
from turnpoint.teachers.scoring import ScoringTeacherSettings, scoring_registry
from turnpoint.training.defaults import with_method_defaults
from turnpoint.training.metrics import LOGGERS


class TrainSettings(Settings):
    """The training loop."""

    steps: NonNegativeInt = 100
    """Training steps in all; a resumed run goes on to the same number."""
    interactions: PositiveInt | None = None
    """Also end with the step that brings the turns played in training to so many, for comparisons of methods that
    play different amounts in a step; None = ``steps`` alone decides."""
    tasks_per_step: PositiveInt = 16
    """Tasks sampled in each step: all tasks come in a new random order in every epoch, and none is left out."""
    checkpoint_every: NonNegativeInt = 10
    """Steps between checkpoints, 0 = only at the end."""
    keep_checkpoints: PositiveInt = 2
    """Newest checkpoints that are kept; the last one is always among them."""
    recompute_old_logprobs: bool = False
    """Score sampled tokens again before the update instead of using the sampler's log-probs."""
    save_episodes: bool = True
    """Write every episode of every step to the run folder."""


class EvalSettings(Settings):
    """Evaluation on held-out tasks."""

    every: NonNegativeInt = 10
    """Steps between evaluations, 0 = only before and after."""
    before: bool = True
    """Evaluate before the first step."""
    tasks: PositiveInt = 100
    """First n tasks of the split."""
    samples: PositiveInt = 1
    """Episodes per task; with ``attempts`` > 1 so many times as many attempts."""
    attempts: PositiveInt = 1
    """Attempts at each of them, for success within k attempts: a method's own chains, or independent ones."""
    split: str = "valid"
    """Which tasks."""
    temperature: NonNegativeFloat = 0.4
    """Sampling temperature, 0 = greedy."""
    top_p: PositiveFloat = 1.0
    """Nucleus sampling."""
    top_k: NonNegativeInt = 0
    """Top-k sampling, 0 = off."""
    measure: bool = True
    """Record oracle distances where the environment has an oracle."""


ScoringSection = Annotated[SerializeAsAny[ScoringTeacherSettings], BeforeValidator(scoring_registry.parse)]
DEFAULT_DOMAIN = "default"
"""Key of the scoring teacher of all domains that have none of their own."""


def _by_domain(data: Any) -> Any:
    """One scoring teacher alone is that of all domains."""
    alone = isinstance(data, str | ScoringTeacherSettings) or (isinstance(data, dict) and "kind" in data)
    return {DEFAULT_DOMAIN: data} if alone else data or {}


class RunConfig(Settings):
    """A whole run."""

    name: str = "run"
    """Name of the run; its folder is ``out/name``."""
    out: Path = Path("runs")
    """Where run folders are made."""
    cache: Path = Path(".cache/turnpoint")
    """Where warm-started models and prepared data are kept."""
    seed: int = 0
    """The one seed; every random choice derives from it."""
    env: Annotated[SerializeAsAny[EnvSettings], BeforeValidator(env_registry.parse)]
    """Environment and its tasks."""
    prompt: PromptSettings = PromptSettings()
    """How turns become prompts."""
    policy: Annotated[SerializeAsAny[PolicySettings], BeforeValidator(policy_registry.parse)]
    """The model that is trained."""
    teacher: Annotated[SerializeAsAny[TeacherSettings], BeforeValidator(teacher_registry.parse)] | None = None
    """Who names pivotal turns and gold actions."""
    scoring: Annotated[dict[str, ScoringSection], BeforeValidator(_by_domain)] = Field(default_factory=dict)
    """Who scores the student's tokens: one teacher, or one for each task domain (``default``: all others)."""
    method: Annotated[SerializeAsAny[MethodSettings], BeforeValidator(method_registry.parse)]
    """How episodes are collected and credited."""
    rollout: RolloutSettings = RolloutSettings()
    """How episodes are played in training."""
    train: TrainSettings = TrainSettings()
    """The loop."""
    eval: EvalSettings = EvalSettings()
    """Evaluation."""
    loggers: list[str] = Field(default_factory=lambda: ["tensorboard"])
    """Loggers beside metrics.jsonl: ``tensorboard``; one that is not installed is skipped with a note."""

    @field_validator("loggers")
    @classmethod
    def _known_loggers(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in LOGGERS:
                near = difflib.get_close_matches(name, LOGGERS, n=1, cutoff=0.5)
                hint = f"did you mean '{near[0]}'?" if near else f"known loggers: {', '.join(LOGGERS)}"
                raise ValueError(f"no logger is called '{name}'; {hint}")
        return names

    @model_validator(mode="after")
    def _on_policy(self) -> Self:
        rollout, way_out = self.rollout, "train.recompute_old_logprobs=true"
        if self.train.recompute_old_logprobs:
            if getattr(self.policy, "scores_by_servers", False):
                raise ValueError(
                    "train.recompute_old_logprobs asks for the trainer's log-probs, but policy.scoring leaves scoring "
                    "to the rollout servers; set policy.scoring=actor"
                )
            return self
        if rollout.top_p < 1 or rollout.top_k > 0:
            raise ValueError(
                f"rollout.top_p={rollout.top_p}, rollout.top_k={rollout.top_k}: sampling from a cut distribution "
                f"gives log-probs that are not the policy's; set them to 1 and 0, or set {way_out} to take those "
                "of the whole distribution"
            )
        trained = getattr(self.policy, "temperature", None)  # a policy from outside may have no such setting
        if (
            self.train.steps > 0
            and None not in (rollout.temperature, trained)
            and rollout.temperature != trained
        ):
            raise ValueError(
                f"rollout.temperature={rollout.temperature} is not policy.temperature={trained}, at which log-probs "
                f"are trained; set policy.temperature={rollout.temperature} and leave rollout.temperature out, or "
                f"set {way_out} to score what was sampled at policy.temperature"
            )
        return self


class ScriptedConfig(Settings):
    """What an evaluation without a model needs of a run config."""

    seed: int = 0
    """Draws what a random agent does."""
    env: Annotated[SerializeAsAny[EnvSettings], BeforeValidator(env_registry.parse)]
    """Environment and its tasks."""
    eval: EvalSettings = EvalSettings()
    """Which tasks, and how often."""


def load_run_config(path: Path | str | dict[str, Any], overrides: list[str] | None = None) -> RunConfig:
    """Read a recipe, apply dotted overrides over it and the method's defaults under it, validate.

    ``backend: verl`` (or local, the default) moves the policy section to that backend before.
    Raises ``ConfigError`` with all faults, one a line.
    """
    data = dict(path) if isinstance(path, dict) else load_yaml(Path(path))
    try:
        return RunConfig.model_validate(
            with_method_defaults(with_backend(apply_overrides(data, overrides or [])))
        )
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
