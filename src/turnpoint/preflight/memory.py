"""How much memory training will take, from the model's files, against what there is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Doubt, Fault, NotApplicable

BYTES = {"float32": 4, "bfloat16": 2}
_CPU_PASS = 2048
"""Tokens of one training pass on a CPU, whatever the budget."""
_LOGITS = 3 * 4 * 2**22
"""Logits of one chunk with what their gradient needs."""
_CERTAIN = ("weights", "gradients", "optimizer", "reference", "teachers")


def parameters(folder: Path) -> int:
    """Number of weights in the safetensors files of a folder, from their headers alone."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        total += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return total


async def estimate(bench: Bench) -> str:
    """Weights, gradients, optimizer, caches and activations, against the memory that is there."""
    run = bench.run
    settings: Any = getattr(run.policy, "settings", run.config.policy)
    folder = Path(getattr(settings, "model", ""))
    if not (folder / "config.json").is_file():
        raise NotApplicable("the model's folder is not known")
    bench.memory = needs(bench, folder)
    need, there = sum(bench.memory.values()), available(bench)
    certain = sum(bench.memory.get(name, 0.0) for name in _CERTAIN)
    parts = ", ".join(f"{name} {size(value)}" for name, value in bench.memory.items() if value)
    told = f"about {size(need)} ({parts}) of {size(there)}"
    way_out = (
        "use policy.dtype=bfloat16, policy.gradient_checkpointing=true, a smaller policy.token_budget or "
        "policy.cache_rows, or a smaller model"
    )
    if certain > there:
        raise Fault(f"training needs {told}: weights and optimizer alone do not fit; {way_out}")
    if need > 0.9 * there:
        raise Doubt(f"training needs {told}, which may not fit; {way_out}")
    return told


def needs(bench: Bench, folder: Path) -> dict[str, float]:
    """Bytes by what holds them; activations and caches are rough."""
    settings: Any = bench.run.config.policy
    width = BYTES[getattr(settings, "dtype", "float32")]
    count = parameters(folder)
    config = json.loads((folder / "config.json").read_text())
    shape: dict[str, Any] = config.get("text_config") or config
    reference = bench.run.policy.capabilities.reference
    found = {
        "weights": count * width,
        "gradients": count * width,
        "optimizer": count * (8 + (4 if width < 4 else 0)),
        "reference": count * width if reference else 0,
        "teachers": sum(_teacher(teacher) for teacher in bench.run.config.scoring.values()),
        "key-value cache": _cache(bench, shape, width),
        "activations": _activations(bench, shape, width) + _LOGITS,
    }
    return {name: float(value) for name, value in found.items()}


def _teacher(settings: Any) -> int:
    folder = getattr(settings, "model", None) if settings.kind == "local" else None
    return parameters(Path(folder)) * BYTES[settings.dtype] if folder else 0


def _layers(shape: dict[str, Any]) -> tuple[int, int, int]:
    """Layers, width and feed-forward width of a model's config; GPT-2's names too."""
    layers = int(shape.get("num_hidden_layers") or shape.get("n_layer") or 0)
    hidden = int(shape.get("hidden_size") or shape.get("n_embd") or 0)
    return layers, hidden, int(shape.get("intermediate_size") or 4 * hidden)


def _longest(bench: Bench) -> int:
    calls = bench.step.calls if bench.step is not None else []
    return max((len(c.prompt_ids) + len(c.response_ids) for c in calls), default=1024)


def _cache(bench: Bench, shape: dict[str, Any], width: int) -> int:
    """Keys and values of as many episodes as are open at a time."""
    run, (layers, hidden, _) = bench.run, _layers(shape)
    heads = int(shape.get("num_attention_heads") or shape.get("n_head") or 1)
    size_of_head = int(shape.get("head_dim") or hidden // heads)
    per_token = 2 * layers * int(shape.get("num_key_value_heads") or heads) * size_of_head * width
    per_task = len(bench.step.episodes) / max(1, len(bench.tasks)) if bench.step is not None else 8
    open_ = min(
        getattr(run.config.policy, "cache_rows", 128),
        run.config.rollout.concurrent,
        math.ceil(per_task * run.config.train.tasks_per_step),
    )
    return per_token * open_ * _longest(bench)


def _activations(bench: Bench, shape: dict[str, Any], width: int) -> int:
    """What the backward pass keeps of one pass: about 16 widths and 3 feed-forward widths a layer and token."""
    settings: Any = bench.run.config.policy
    layers, hidden, ffn = _layers(shape)
    budget = getattr(settings, "token_budget", _CPU_PASS)
    tokens = max(_longest(bench), budget if _on_gpu(bench) else min(budget, _CPU_PASS))
    one = (16 * hidden + 3 * ffn) * width
    if getattr(settings, "gradient_checkpointing", False):
        return tokens * (layers * hidden * width + one)
    return tokens * layers * one


def _on_gpu(bench: Bench) -> bool:
    device = getattr(getattr(bench.run.policy, "network", None), "device", None)
    return getattr(device, "type", "cpu") == "cuda"


def available(bench: Bench) -> float:
    """Bytes that training can have: of the GPU, or of this machine, what this process holds included."""
    if _on_gpu(bench):
        import torch

        return float(torch.cuda.mem_get_info()[1])
    limits = [_meminfo() + _own()]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and group.read_text().strip().isdigit():
        limits.append(float(group.read_text()))
    return min(limits)


def _meminfo() -> float:
    path = Path("/proc/meminfo")
    if not path.is_file():
        return math.inf
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return float(lines["MemAvailable"].split()[0]) * 1024


def _own() -> float:
    path = Path("/proc/self/statm")
    return float(path.read_text().split()[1]) * 4096 if path.is_file() else 0.0


def size(number: float) -> str:
    """Bytes for people."""
    if not math.isfinite(number):
        return "an unknown amount"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{number:.3g} {unit}"
        number /= 1024
    return ""
