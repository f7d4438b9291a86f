"""A plan's inputs: a recipe, what a finished run measured, and settings by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnpoint.config import ConfigError, Settings, apply_overrides, explain
from turnpoint.planning.cluster import Cluster, ClusterSettings, Efficiency
from turnpoint.planning.hardware import find_gpu, read_profile
from turnpoint.planning.memory import tensor_parallel_for
from turnpoint.planning.shapes import KNOWN, ModelShape, model_shape
from turnpoint.planning.workload import Workload, measured, workload_of
from turnpoint.training.settings import RunConfig

DEFAULT_STUDENT, DEFAULT_TEACHER = "Qwen3-1.7B", "Qwen3-30B-A3B"
SECTIONS: dict[str, type[Settings]] = {
    "workload": Workload,
    "efficiency": Efficiency,
    "cluster": ClusterSettings,
}


def read_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """``workload.turns=20`` and the like, validated. Raises ``ConfigError``."""
    for text in texts:
        section = text.partition(".")[0]
        if section not in SECTIONS or "=" not in text:
            raise ConfigError(
                f"--set '{text}' is not of the form section.setting=value with section one of {', '.join(SECTIONS)}"
            )
    data = apply_overrides({name: {} for name in SECTIONS}, texts)
    for name, kind in SECTIONS.items():
        try:
            kind.model_validate(data[name])
        except ValidationError as error:
            raise ConfigError(f"--set {name}: {explain(error)}") from error
    return data


def workload(config: RunConfig, run: Path | None, changes: dict[str, Any]) -> Workload:
    """The recipe's step, laid over by what ``run`` measured, and by ``changes``."""
    base = workload_of(config).model_dump()
    return Workload.model_validate(base | (measured(run) if run is not None else {}) | changes)


def student_shape(config: RunConfig, asked: str | None) -> tuple[ModelShape, str]:
    """The trained model's shape, and how it was found."""
    if asked is not None:
        return model_shape(asked), "asked for"
    folder = str(getattr(config.policy, "model", "") or "")
    if folder and (Path(folder) / "config.json").is_file():
        return model_shape(folder), f"policy.model ({folder})"
    return KNOWN[DEFAULT_STUDENT], "assumed: policy.model names no folder here; set --model"


def teacher_shape(config: RunConfig, asked: str | None) -> ModelShape | None:
    """The scoring teacher's shape; None without one."""
    if asked is not None:
        return model_shape(asked)
    if not config.method.asks_scoring:
        return None
    for section in config.scoring.values():
        folder = str(getattr(section, "model", "") or "")
        if (Path(folder) / "config.json").is_file():
            return model_shape(folder)
    return KNOWN[DEFAULT_TEACHER]


def cluster(
    config: RunConfig, student: ModelShape, gpus: int, gpu: str, settings: dict[str, dict[str, Any]]
) -> Cluster:
    """The machines. Raises ``ConfigError`` for an unknown GPU."""
    chosen, kind = ClusterSettings.model_validate(settings["cluster"]), find_gpu(gpu)
    policy: Any = config.policy
    own = policy if config.policy.kind == "verl" else None
    wide = (
        chosen.tensor_parallel
        or (own and own.tensor_parallel)
        or tensor_parallel_for(student, kind.memory, gpus)
    )
    share = read_profile(gpu).get("efficiency", {})
    if own is not None:
        share |= {"checkpointing": own.gradient_checkpointing, "micro_batch_tokens": own.token_budget}
    return Cluster(
        gpu=kind,
        gpus=gpus,
        efficiency=Efficiency.model_validate(share | settings["efficiency"]),
        tensor_parallel=wide,
        gpus_per_node=chosen.gpus_per_node,
        env_workers=chosen.env_workers or config.rollout.env_worker_count,
        teacher_gpus=_pool(config) if chosen.teacher_gpus is None else chosen.teacher_gpus,
        lockstep=config.rollout.lockstep if chosen.lockstep is None else chosen.lockstep,
    )


def _pool(config: RunConfig) -> int:
    """GPUs of the scoring teachers' own servers."""
    pools: list[Any] = [section for section in config.scoring.values() if section.kind == "verl"]
    return sum(pool.nodes * pool.gpus_per_node for pool in pools)
