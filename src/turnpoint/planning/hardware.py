"""GPUs by their data sheets: what a kernel that wastes nothing would reach."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError


@dataclass(frozen=True, slots=True)
class Gpu:
    """Published figures of one accelerator, or measured ones of this machine."""

    name: str
    flops: float
    """Dense operations a second in bfloat16, without sparsity."""
    bandwidth: float
    """Bytes a second from its memory."""
    memory: float
    """Bytes."""
    node_link: float
    """Bytes a second to the other GPUs of its node, one direction."""
    network: float
    """Bytes a second to other nodes, its share of the node's adapters."""


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", 312e12, 2.039e12, 80e9, 300e9, 25e9),
        Gpu("h100", 989e12, 3.35e12, 80e9, 450e9, 50e9),
        Gpu("h200", 989e12, 4.8e12, 141e9, 450e9, 50e9),
    )
}
"""SXM boards of NVIDIA's data sheets (A100 80 GB, H100 80 GB, H200 141 GB), in DGX nodes of eight."""


def find_gpu(name: str) -> Gpu:
    """A known GPU, or the profile in a JSON file. Raises ``ConfigError``."""
    if name.endswith(".json"):
        try:
            return Gpu(**read_profile(name)["gpu"])
        except (KeyError, TypeError) as error:
            raise ConfigError(_no_profile(name, error)) from error
    if name.lower() in GPUS:
        return GPUS[name.lower()]
    near = difflib.get_close_matches(name.lower(), GPUS, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(GPUS)}"
    raise ConfigError(f"no GPU is called '{name}'; {hint} (or the path of a measured profile, FILE.json)")


def read_profile(name: str) -> dict[str, Any]:
    """A profile that ``benchmarks.cost_model`` wrote; empty for the name of a GPU. Raises ``ConfigError``."""
    if not name.endswith(".json"):
        return {}
    try:
        data = json.loads(Path(name).read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(_no_profile(name, error)) from error
    return data if isinstance(data, dict) else {}


def _no_profile(name: str, error: Exception) -> str:
    return (
        f"'{name}' is no hardware profile ({type(error).__name__}: {error}); make one with "
        "python -m benchmarks.cost_model --out FILE"
    )
