"""The policy on one machine: sampler, scorer and update around one Hugging Face model."""

from turnpoint.policy.local.optim import NonFiniteGradient
from turnpoint.policy.local.policy import LocalPolicy

__all__ = ["LocalPolicy", "NonFiniteGradient"]
