"""Settings of rollouts."""

from __future__ import annotations

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

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
    lockstep: bool = True
    """Wait for environment calls and remote teachers before the next model batch, so that results do not depend on
    their speed."""
