"""Policies: the protocol, its settings, and the backends (``local``: torch on one machine)."""

from turnpoint.policy.protocol import (
    ContextOverflow,
    Policy,
    PolicyCapabilities,
    Sample,
    SampleRequest,
    Sampling,
    ScoreRequest,
)

__all__ = [
    "ContextOverflow",
    "Policy",
    "PolicyCapabilities",
    "Sample",
    "SampleRequest",
    "Sampling",
    "ScoreRequest",
]
