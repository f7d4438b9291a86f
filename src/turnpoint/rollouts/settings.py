"""Settings of rollouts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from turnpoint.config import Settings


class RolloutSettings(Settings):
    """How episodes are played."""

    temperature: NonNegativeFloat | None = None
    """Sampling temperature; None = the policy's training temperature."""
    top_p: PositiveFloat = 1.0
    """Nucleus sampling; below 1 it is refused in training, where log-probs must be those of the policy."""
    top_k: NonNegativeInt = 0
    """Top-k sampling, 0 = off; refused in training for the same reason."""
    max_response_tokens: PositiveInt = 512
    """Longest response of one turn."""
    max_turns: PositiveInt | None = None
    """Turn budget; None = the environment's own."""
    concurrent: PositiveInt = 256
    """Most episodes, or recovery branches, open at a time."""
    episode_seconds: PositiveFloat | None = None
    """Wall clock of one episode or recovery branch, model and environment together; None = no limit."""
    env_seconds: PositiveFloat | None = None
    """Longest single environment call; when set, each copy runs in a thread of its own, and a hung one is given up."""
    env_workers: Literal["threads", "ray"] = "threads"
    """Where environment copies live: in this process (each in a thread if ``env_seconds`` is set), or each in a Ray
    actor, which is replaced when it dies, and its episode brought back if the environment is deterministic."""
    env_worker_count: PositiveInt | None = None
    """Most Ray actors, and so most episodes that have an environment at a time: others wait. None = what half of
    Ray's free CPUs hold, at most ``concurrent``."""
    env_worker_cpus: NonNegativeFloat = 0.5
    """CPUs that Ray sets aside for each actor."""
    lockstep: bool = True
    """Wait for environment calls and remote teachers before the next model batch, so that results do not depend on
    their speed."""

    @model_validator(mode="after")
    def _workers_have_limits(self) -> Self:
        if self.env_workers == "ray" and self.env_seconds is None:
            raise ValueError(
                "env_workers=ray needs a time limit for calls, or a worker that hangs holds its episode for ever; set "
                "env_seconds, to 120 for example"
            )
        if self.env_workers == "threads" and self.env_worker_count is not None:
            raise ValueError(
                f"env_worker_count={self.env_worker_count} is for env_workers=ray; set that, or remove it"
            )
        return self
