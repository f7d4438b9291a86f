"""How much memory training will take, from the model's files, against what there is."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnpoint.policy.settings import LoraSettings
from turnpoint.policy.sources import model_folder
from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.training.settings import RunConfig

BYTES = {"float32": 4, "bfloat16": 2}
_CPU_PASS = 2048
"""Tokens of one training pass on a CPU, whatever the budget."""
_LOGITS = 3 * 4 * 2**22
"""Logits of one chunk with what their gradient needs."""
_MOMENTS = {"adamw": 8, "muon": 8, "adamw8bit": 2}
"""Bytes an optimizer keeps of a trained weight; Muon keeps one moment of matrices, which is counted as two."""
_NOT_INSIDE = ("embed", "lm_head", "wte", "wpe", "embed_out")
"""Parts of names of matrices that get no adapter: embeddings and the output layer."""
_CERTAIN = ("weights", "adapters", "gradients", "optimizer", "reference", "teachers")


@dataclass(frozen=True, slots=True)
class Plan:
    """What an estimate is made from."""

    config: RunConfig
    folder: Path
    """Of the model."""
    longest: int = 1024
    """Tokens of the longest sequence."""
    per_task: float = 8.0
    """Episodes of a task that are open at a time."""
    on_gpu: bool = False
    reference: bool = False
    """Whether initial weights are kept beside the trained ones."""

    @property
    def shape(self) -> dict[str, Any]:
        """The model's sizes, by the names of its config."""
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return config.get("text_config") or config

    @property
    def width(self) -> int:
        """Bytes of a weight."""
        return BYTES[getattr(self.config.policy, "dtype", "float32")]


def shapes(folder: Path) -> dict[str, list[int]]:
    """Shape of each weight in the safetensors files of a folder, from their headers alone."""
    found: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        found |= {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return found


def parameters(folder: Path) -> int:
    """Number of weights in the safetensors files of a folder."""
    return sum(math.prod(shape) for shape in shapes(folder).values())


def adapter_parameters(folder: Path, lora: LoraSettings) -> int:
    """Number of weights of the adapters that a model would get."""
    layers = {
        name.removesuffix(".weight"): shape
        for name, shape in shapes(folder).items()
        if len(shape) == 2 and name.endswith(".weight") and not any(word in name for word in _NOT_INSIDE)
    }
    chosen = [
        shape
        for name, shape in layers.items()
        if lora.targets == "all-linear" or any(name.endswith(target) for target in lora.targets)
    ]
    return sum(lora.rank * (rows + columns) for rows, columns in chosen)


async def estimate(bench: Bench) -> str:
    """Weights, gradients, optimizer, caches and activations, against the memory that is there."""
    run = bench.run
    settings: Any = getattr(run.policy, "settings", run.config.policy)
    folder = Path(getattr(settings, "model", ""))
    if not (folder / "config.json").is_file():
        raise NotApplicable("the model's folder is not known")
    plan = Plan(run.config, folder, on_gpu=_on_gpu(bench), reference=run.policy.capabilities.reference)
    if bench.step is not None:
        longest = max((len(c.prompt_ids) + len(c.response_ids) for c in bench.step.calls), default=1024)
        plan = replace(plan, longest=longest, per_task=len(bench.step.episodes) / max(1, len(bench.tasks)))
    bench.memory = needs(plan)
    return judge(bench.memory, available(plan.on_gpu))


def before_building(config: RunConfig) -> tuple[dict[str, float], str]:
    """What a run will need, from the model's files alone, and a sentence about it; raises like a check."""
    source = str(getattr(config.policy, "model", ""))
    folder = model_folder(source, config.cache) if source else Path()
    if not source or not (folder / "config.json").is_file():
        raise NotApplicable("the model's folder is not known before the model is made")
    policy: Any = config.policy
    kl = getattr(getattr(policy, "loss", None), "kl", 0.0)
    reference = bool(getattr(policy, "keep_reference", False) or kl > 0)
    group = float(getattr(config.method, "group", 8))
    plan = Plan(config, folder, per_task=group, on_gpu=_gpu_asked(policy), reference=reference)
    found = needs(plan)
    return found, judge(found, available(plan.on_gpu))


def judge(found: dict[str, float], there: float) -> str:
    """What is needed of what is there; raises ``Fault`` if it cannot fit and ``Doubt`` if it may not."""
    need = sum(found.values())
    certain = sum(found.get(name, 0.0) for name in _CERTAIN)
    parts = ", ".join(f"{name} {size(value)}" for name, value in found.items() if value)
    told = f"about {size(need)} ({parts}) of {size(there)}"
    way_out = (
        "use policy.lora, policy.dtype=bfloat16, policy.optimizer.kind=adamw8bit, policy.gradient_checkpointing=true, "
        "a smaller policy.token_budget or policy.cache_rows, or a smaller model"
    )
    if certain > there:
        raise Fault(f"training needs {told}: weights and optimizer alone do not fit; {way_out}")
    if need > 0.9 * there:
        raise Doubt(f"training needs {told}, which may not fit; {way_out}")
    return told


def needs(plan: Plan) -> dict[str, float]:
    """Bytes by what holds them; activations and caches are rough."""
    settings: Any = plan.config.policy
    width, count = plan.width, parameters(plan.folder)
    lora: LoraSettings | None = getattr(settings, "lora", None)
    trained = count if lora is None else adapter_parameters(plan.folder, lora)
    trained_width = width if lora is None else 4
    masters = 4 if trained_width < 4 else 0
    moments = _MOMENTS[settings.optimizer.kind] if hasattr(settings, "optimizer") else 8
    found: dict[str, float] = {
        "weights": count * width,
        "adapters": 0 if lora is None else trained * trained_width,
        "gradients": trained * 4,  # in float32 alone: a weight's own gradient goes into its master's at once
        "optimizer": trained * (moments + masters),
        "reference": count * width if plan.reference and lora is None else 0,
        "teachers": sum(_teacher(plan, teacher) for teacher in plan.config.scoring.values()),
        "key-value cache": _cache(plan),
        "activations": _activations(plan) + _LOGITS,
    }
    if getattr(settings, "kind", "") == "vllm":
        found |= _engine(plan, count, found["gradients"] + found["activations"])
    return {name: float(value) for name, value in found.items()}


def _engine(plan: Plan, count: int, of_update: float) -> dict[str, float]:
    """What a vLLM engine holds in the place of our own cache: its share of the GPU, or the weights once more.

    ``of_update``: bytes that only the update needs; an engine that sleeps meanwhile leaves them that room.
    """
    settings: Any = plan.config.policy
    if not plan.on_gpu:
        return {"key-value cache": 0.0, "engine": float(count * BYTES[settings.sampler_dtype])}
    share = settings.gpu_memory * available(True)
    return {
        "key-value cache": 0.0,
        "engine": share if settings.sleep_level == 0 else max(share - of_update, 0.0),
    }


def _teacher(plan: Plan, settings: Any) -> int:
    source = getattr(settings, "model", None) if settings.kind == "local" else None
    return parameters(model_folder(str(source), plan.config.cache)) * BYTES[settings.dtype] if source else 0


def _layers(shape: dict[str, Any]) -> tuple[int, int, int]:
    """Layers, width and feed-forward width of a model's config; GPT-2's names too."""
    layers = int(shape.get("num_hidden_layers") or shape.get("n_layer") or 0)
    hidden = int(shape.get("hidden_size") or shape.get("n_embd") or 0)
    return layers, hidden, int(shape.get("intermediate_size") or 4 * hidden)


def _cache(plan: Plan) -> int:
    """Keys and values of as many episodes as are open at a time."""
    shape, config = plan.shape, plan.config
    layers, hidden, _ = _layers(shape)
    heads = int(shape.get("num_attention_heads") or shape.get("n_head") or 1)
    size_of_head = int(shape.get("head_dim") or hidden // heads)
    per_token = 2 * layers * int(shape.get("num_key_value_heads") or heads) * size_of_head * plan.width
    open_ = min(
        getattr(config.policy, "cache_rows", 128),
        config.rollout.concurrent,
        math.ceil(plan.per_task * config.train.tasks_per_step),
    )
    return per_token * open_ * plan.longest


def _activations(plan: Plan) -> int:
    """What the backward pass keeps of one pass: about 16 widths and 3 feed-forward widths a layer and token."""
    settings: Any = plan.config.policy
    layers, hidden, ffn = _layers(plan.shape)
    budget = getattr(settings, "token_budget", _CPU_PASS)
    tokens = max(plan.longest, budget if plan.on_gpu else min(budget, _CPU_PASS))
    one = (16 * hidden + 3 * ffn) * plan.width
    if getattr(settings, "gradient_checkpointing", False):
        return tokens * (layers * hidden * plan.width + one)
    return tokens * layers * one


def _on_gpu(bench: Bench) -> bool:
    device = getattr(getattr(bench.run.policy, "network", None), "device", None)
    return getattr(device, "type", "cpu") == "cuda"


def _gpu_asked(policy: Any) -> bool:
    import torch

    return str(getattr(policy, "device", "cpu")) != "cpu" and torch.cuda.is_available()


def available(on_gpu: bool) -> float:
    """Bytes that training can have: of the GPU, or of this machine, what this process holds included."""
    if on_gpu:
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
