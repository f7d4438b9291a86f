"""Where a step stops getting faster, in sentences: what waits for what, and what changes that."""

from __future__ import annotations

import math
from dataclasses import replace

from turnpoint.planning.cluster import Cluster
from turnpoint.planning.memory import MemoryNeed
from turnpoint.planning.shapes import ModelShape
from turnpoint.planning.step import StepTime, step_time
from turnpoint.planning.workload import Workload

_MUCH = 0.25
"""Share of a step from which a part is worth a sentence."""


def limits(
    work: Workload,
    student: ModelShape,
    cluster: Cluster,
    teacher: ModelShape | None,
    time: StepTime,
    memory: MemoryNeed,
) -> list[str]:
    """What limits a step on a cluster, the largest first."""
    told = [] if memory.fits else [_memory(memory, student, cluster)]
    share = {name: value / time.total for name, value in time.seconds.items()}
    explain = {
        "generation": _generation,
        "environment": _environment,
        "driver": _driver,
        "recovery": _recovery,
        "scoring": _scoring,
        "replay": _replay,
        "teacher": _teacher,
        "update": _update,
        "weight sync": _sync,
    }
    for name in sorted(share, key=lambda part: -share[part]):
        if share[name] >= _MUCH and name in explain:
            told.append(f"{share[name]:.0%} {name}: {explain[name](work, student, cluster, time)}")
    idle = cluster.servers - math.ceil(min(work.episodes, work.concurrent))
    if idle > 0:
        told.append(
            f"{idle} of {cluster.servers} rollout servers have no episode: more GPUs do nothing for this step; raise "
            "train.tasks_per_step, or use tensor parallelism"
        )
    halved = replace(cluster, gpus=cluster.gpus * 2)
    gain = time.total / step_time(work, student, halved, teacher).total
    told.append(f"twice the GPUs would make this step {gain:.2f} times as fast")
    return told


def _memory(memory: MemoryNeed, student: ModelShape, cluster: Cluster) -> str:
    gib = 2.0**30
    return (
        f"does not fit: training needs {memory.training / gib:.0f} GiB and sampling {memory.sampling / gib:.0f} GiB "
        f"of {memory.there / gib:.0f} GiB a GPU; shard over more GPUs, lower micro_batch_tokens, move the optimizer to "
        "the host (policy.verl: actor_rollout_ref.actor.fsdp_config.optimizer_offload), or raise tensor_parallel"
    )


def _generation(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    step = time.notes["decoding step"]
    weights = student.weights_read(1) / (
        cluster.gpu.bandwidth * cluster.efficiency.decode_mbu * cluster.tensor_parallel
    )
    fixed = (cluster.efficiency.decode_seconds + weights) / step
    batch = time.notes["sequences of a server"]
    if fixed > 0.7:
        return (
            f"a server decodes {batch:.0f} sequences, and {fixed:.0%} of its {1000 * step:.1f} ms a token do not "
            "depend on how many: latency, not throughput; longer steps (more tasks) use the GPUs, more GPUs do not help"
        )
    return (
        f"a server decodes {batch:.0f} sequences at {1000 * step:.1f} ms a token; stop episodes early, shorten "
        "responses, or add GPUs"
    )


def _recovery(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    return (
        f"{work.recoveries:.0f} branches of {work.recovery_turns:g} turns, each sampled and scored with and without a "
        "hint; method.recovery_turns and method.max_recoveries bound it"
    )


def _scoring(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    return (
        f"{work.forward_passes:g} passes without a gradient over everything that is trained (old log-probs, reference, "
        "self-teacher); policy.loss.kl=0 saves the reference's"
    )


def _environment(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    open_now = min(work.episodes, work.concurrent)
    if open_now > cluster.workers:
        return (
            f"{open_now:.0f} episodes share {cluster.workers} environment workers, so a turn takes "
            f"{math.ceil(open_now / cluster.workers)} rounds; raise rollout.env_worker_count"
        )
    return (
        f"every turn waits {work.env_seconds:g} s for the slowest environment; rollout.lockstep=false lets the model "
        "work for other episodes meanwhile, at the price of bitwise repetition"
    )


def _driver(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    calls = work.episodes * work.turns
    return (
        f"one process builds {calls:.0f} prompts and records at {1000 * cluster.efficiency.driver_call_seconds:.1f} ms "
        "each, and servers wait for it; shorter episodes, or several runs side by side: this part does not get faster "
        "with GPUs"
    )


def _replay(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    return (
        f"each branch repeats {work.replay_turns:.0f} environment turns to get its state back; use an environment with "
        "snapshots, method.recovery_turns=1 (which needs no environment), or more workers"
    )


def _teacher(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    if work.scoring_per_turn:
        return (
            "the scoring teacher reads the whole prompt again after every turn; give it GPUs of its own (teacher_gpus) "
            "or a server that keeps its prefix cache for prompt log-probs"
        )
    if work.scoring:
        return "the scoring teacher reads everything once; give it (more) GPUs of its own"
    return (
        f"{work.teacher_calls:.0f} calls of {work.teacher_seconds:g} s, {work.teacher_concurrency} at a time; raise "
        "teacher.concurrency as far as the endpoint allows, and add endpoints"
    )


def _update(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    ratio = time.notes["trainer's communication over its computing"]
    if ratio > 1:
        return (
            f"sending shards takes {ratio:.1f} times as long as computing: more rows for each GPU, or sharding within "
            "nodes only (verl's fsdp_size) with replicas between them"
        )
    return "bound by computing: chat history (prompts that extend each other are trained once), early stops, more GPUs"


def _sync(work: Workload, student: ModelShape, cluster: Cluster, time: StepTime) -> str:
    return "new weights are sent after every update whatever the step's size: longer steps make it cheaper"
