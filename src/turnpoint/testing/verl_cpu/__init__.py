"""verl on a CPU, for tests and for trying out: a platform (gloo, FSDP2, float32) and a small rollout server.

Nothing happens unless ``VERL_PLATFORM=cpu`` is set before verl is imported and this module is among verl's external
modules; ``policy.device: cpu`` with ``OVERRIDES`` does both. On a machine with GPUs it is as inert as anywhere else.
"""

from __future__ import annotations

import os

ENGINE = "turnpoint_cpu"
"""Name of the rollout server, for ``policy.engine``."""
OVERRIDES = (
    "policy.device=cpu",
    f"policy.engine={ENGINE}",
    f"policy.external_modules=[{__name__}]",
)
"""What makes a recipe with ``backend=verl`` run on a CPU; to be appended to its overrides."""


def asked_for() -> bool:
    """Whether this process is to run verl on a CPU."""
    return os.environ.get("VERL_PLATFORM", "").lower() == "cpu"


if asked_for():
    from turnpoint.testing.verl_cpu.install import install

    install()
