"""A plan: the step of a recipe on several sizes of cluster, what limits each, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnpoint.planning.cluster import Cluster
from turnpoint.planning.limits import limits
from turnpoint.planning.memory import MemoryNeed, memory_need
from turnpoint.planning.shapes import ModelShape
from turnpoint.planning.step import StepTime, step_time
from turnpoint.planning.workload import Workload


@dataclass(frozen=True, slots=True)
class Size:
    """One size of cluster."""

    cluster: Cluster
    work: Workload
    time: StepTime
    memory: MemoryNeed
    said: list[str]
    """What limits it and what to do."""

    @property
    def episodes_per_hour(self) -> float:
        """Throughput."""
        return 3600.0 * self.work.episodes / self.time.total

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "gpus": self.cluster.gpus,
            "nodes": self.cluster.nodes,
            "tensor_parallel": self.cluster.tensor_parallel,
            "servers": self.cluster.servers,
            "env_workers": self.cluster.workers,
            "teacher_gpus": self.cluster.teacher_gpus,
            "episodes": self.work.episodes,
            "seconds": dict(self.time.seconds),
            "step_seconds": self.time.total,
            "episodes_per_hour": self.episodes_per_hour,
            "gpu_seconds_per_episode": self.cluster.gpus * self.time.total / self.work.episodes,
            "limited_by": self.time.largest,
            "notes": dict(self.time.notes),
            "memory": self.memory.to_dict(),
            "advice": list(self.said),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The same step on several clusters, and steps that grow with them."""

    student: ModelShape
    teacher: ModelShape | None
    same_step: list[Size]
    """The recipe's step on more GPUs."""
    grown_step: list[Size]
    """Tasks of a step in proportion to the GPUs."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "student": self.student.name,
            "teacher": self.teacher.name if self.teacher else None,
            "workload": self.same_step[0].work.model_dump(),
            "gpu": self.same_step[0].cluster.gpu.name,
            "assumptions": self.same_step[0].cluster.efficiency.model_dump(),
            "same_step": [size.to_dict() for size in self.same_step],
            "grown_step": [size.to_dict() for size in self.grown_step],
        }


def make_plan(
    work: Workload,
    student: ModelShape,
    cluster: Cluster,
    *,
    teacher: ModelShape | None = None,
    sizes: Sequence[int] = (8, 64, 512),
) -> Plan:
    """Plan a step for ``cluster`` and for ``sizes`` of it. GPUs of a teacher and workers grow with the grown step."""
    counts = sorted({cluster.gpus, *sizes})
    same = [_size(work, student, replace(cluster, gpus=count), teacher) for count in counts]
    grown = []
    for count in counts:
        times = max(1.0, count / cluster.gpus)
        bigger = work.model_copy(
            update={
                "tasks": math.ceil(work.tasks * times),
                "recoveries": work.recoveries * times,
                "teacher_calls": work.teacher_calls * times,
                "concurrent": math.ceil(work.concurrent * times),
            }
        )
        wider = replace(
            cluster,
            gpus=count,
            env_workers=math.ceil(cluster.env_workers * times) if cluster.env_workers else None,
            teacher_gpus=math.ceil(cluster.teacher_gpus * times),
        )
        grown.append(_size(bigger, student, wider, teacher))
    return Plan(student, teacher, same, grown)


def _size(work: Workload, student: ModelShape, cluster: Cluster, teacher: ModelShape | None) -> Size:
    time, memory = step_time(work, student, cluster, teacher), memory_need(student, cluster, work)
    return Size(cluster, work, time, memory, limits(work, student, cluster, teacher, time, memory))
