"""The conformance suite on a machine and a model of the user's own: what ``turnpoint gpu-smoke`` runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnpoint.config import ConfigError, apply_overrides, explain
from turnpoint.policy import Policy
from turnpoint.policy.settings import PolicySettings, policy_registry
from turnpoint.testing.conformance import BF16, FP32, Assertion, run_conformance

TINY_LR, LR = 1e-2, 1e-4
"""Learning rates that move log-probs visibly in one step: of the tiny model, and of real ones."""
CONTEXT = 2048
"""Context length of the assertions; the longest sequence they use has about a hundred tokens."""


@dataclass(frozen=True, slots=True)
class Smoke:
    """The assertions in one data type."""

    dtype: str
    assertions: list[Assertion]

    @property
    def ok(self) -> bool:
        """No assertion is violated."""
        return all(assertion.ok is not False for assertion in self.assertions)


def require_device(device: str) -> str:
    """The name of the device for people. Raises ``ConfigError`` if it is a GPU and there is none."""
    if device == "cpu":
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        raise ConfigError(
            "gpu-smoke needs a GPU, and torch sees none on this machine: run it where the GPU is, or with --device cpu "
            "to put the same assertions to the CPU"
        )
    return str(torch.cuda.get_device_name(torch.device(device)))


def policy_settings(
    backend: str,
    model: Path,
    *,
    dtype: str,
    device: str,
    lr: float,
    overrides: Sequence[str] = (),
) -> PolicySettings:
    """Settings of the policy to test. Raises ``ConfigError`` for settings that the backend does not have."""
    known = policy_registry.get(backend).model_fields
    section: dict[str, Any] = {"kind": backend, "model": str(model), "optimizer": {"lr": lr}}
    given = {"dtype": dtype, "device": device, "context_length": CONTEXT}
    section |= {name: value for name, value in given.items() if name in known}
    wrong = [text for text in overrides if not text.startswith("policy.")]
    if wrong:
        raise ConfigError(
            f"'{wrong[0]}' is not a setting of the policy; gpu-smoke takes policy.setting=value only"
        )
    try:
        return policy_registry.parse(apply_overrides({"policy": section}, overrides)["policy"])
    except ValidationError as error:
        raise ConfigError(explain(error)) from error


def smoke(
    settings: PolicySettings,
    *,
    dtype: str,
    tolerance: float | None = None,
    progress: Callable[[Assertion], Any] | None = None,
) -> Smoke:
    """All assertions about the policy of ``settings``, which is closed afterwards.

    ``tolerance``: largest difference of log-probs in nats; None = 1e-5 in float32 and 0.5 in bfloat16.
    """
    bounds = FP32 if dtype == "float32" else BF16
    if tolerance is not None:
        bounds = replace(bounds, logprob=tolerance)
    made: list[Policy] = []

    def factory() -> Policy:
        made.append(settings.build(seed=0))
        return made[0]

    try:
        return Smoke(dtype, run_conformance(factory, bounds=bounds, progress=progress))
    finally:
        for policy in made:
            close = getattr(policy, "close", None)  # local policies hold nothing but memory
            if close is not None:
                close()
        made.clear()
        _free()


def _free() -> None:
    """Give the memory of a policy back before the next one is built."""
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
