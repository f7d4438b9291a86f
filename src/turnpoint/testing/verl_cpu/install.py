"""Registers the CPU platform and the rollout server with verl; imported on request only."""

from __future__ import annotations

import os
from typing import Any

import torch
from verl.plugin.platform import PlatformRegistry

from turnpoint.testing.verl_cpu import ENGINE
from turnpoint.testing.verl_cpu.platform import CpuPlatform

_DOUBLED = "cpu:gloo,cpu:gloo"


def install() -> None:
    """Make verl in this process work without an accelerator."""
    PlatformRegistry.register(platform="cpu")(CpuPlatform)
    # verl registers its FSDP engines for accelerators only; the registry honours this variable.
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    _undouble_backend()
    # verl keeps reference weights in pinned memory, which is for copies to an accelerator.
    setattr(torch.Tensor, "pin_memory", lambda tensor, *_, **__: tensor)  # noqa: B010
    _register_server()


def _undouble_backend() -> None:
    """verl asks for ``cpu:gloo`` beside the device's own backend, which on a CPU is the same one twice."""
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return original("cpu:gloo" if backend == _DOUBLED else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def _register_server() -> None:
    # By name only: the classes behind import verl's workers, and verl itself is still being imported here.
    from verl.workers.rollout import base, replica

    base._ROLLOUT_REGISTRY[(ENGINE, "async")] = "turnpoint.testing.verl_cpu.replica.CpuServerAdapter"

    def load() -> Any:
        from turnpoint.testing.verl_cpu.replica import CpuReplica

        return CpuReplica

    replica.RolloutReplicaRegistry.register(ENGINE, load)
