"""A verl platform without an accelerator."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform import PlatformBase

_ZERO = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
_NOTHING = (
    "empty_cache", "reset_peak_memory_stats", "ipc_collect", "manual_seed", "manual_seed_all", "set_device",
)  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _cpu_module() -> types.ModuleType:
    """``torch.cpu`` with the functions that verl calls on ``torch.cuda``."""
    module = types.ModuleType("turnpoint_cpu_device")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))
    functions: dict[str, Any] = {name: lambda *_, **__: 0 for name in _ZERO}
    functions |= dict.fromkeys(_NOTHING, _nothing)
    functions |= {
        "mem_get_info": lambda *_, **__: (0, 0),
        "get_device_name": lambda *_, **__: "cpu",
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "set_rng_state": lambda state, *_, **__: torch.set_rng_state(state),
        "is_available": lambda: True,
        "device_count": lambda: 1,
    }
    for name, function in functions.items():
        setattr(module, name, function)
    return module


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """What verl asks of a platform, answered for a CPU; Ray counts its processes as logical GPUs."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _cpu_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # never chosen by itself; only VERL_PLATFORM=cpu asks for it

    def current_device(self) -> torch.device:
        return torch.device("cpu")  # the number 0 would mean the first accelerator

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None
