"""Seconds of one training step by part: all formulas; ``Efficiency`` and ``Workload`` hold what they assume."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from turnpoint.planning.cluster import Cluster
from turnpoint.planning.shapes import ModelShape
from turnpoint.planning.workload import Workload

PARTS = (
    "generation", "environment", "driver", "recovery", "replay", "teacher", "scoring", "update", "weight sync",
)  # fmt: skip
"""What a step's time is made of."""


@dataclass(slots=True)
class StepTime:
    """A step: seconds by part, and what is worth knowing beside them."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    notes: dict[str, float] = field(default_factory=dict)
    """Batch of a server at the start, decoding seconds, communication share and so on."""

    @property
    def total(self) -> float:
        """Seconds of the step."""
        return sum(self.seconds.values())

    @property
    def largest(self) -> str:
        """The part that takes longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])


def step_time(
    work: Workload, student: ModelShape, cluster: Cluster, teacher: ModelShape | None = None
) -> StepTime:
    """Time of one step; ``teacher`` is the scoring teacher's model (None: one of the student's size)."""
    result = StepTime()
    seconds = result.seconds
    _play(result, work, student, cluster)
    _recover(result, work, student, cluster)
    _name(result, work, student, cluster)
    _score(result, work, student, teacher or student, cluster)
    _update(result, work, student, cluster)
    seconds["weight sync"] = _sync(student, cluster)
    seconds["driver"] += cluster.efficiency.driver_row_seconds * work.episodes * work.turns
    return result


def decode_step(student: ModelShape, cluster: Cluster, batch: float, context: float) -> float:
    """Seconds of one decoding step of a server with ``batch`` sequences: read weights and caches, or compute."""
    gpu, share, wide = cluster.gpu, cluster.efficiency, cluster.tensor_parallel
    read = student.weights_read(batch) + batch * context * student.kv_bytes
    by_memory = read / (gpu.bandwidth * share.decode_mbu * wide)
    by_compute = student.forward_flops(batch, context) / (gpu.flops * share.decode_mfu * wide)
    return max(by_memory, by_compute) + share.decode_seconds


def turn_seconds(
    work: Workload, student: ModelShape, cluster: Cluster, episodes: float, turn: int
) -> tuple[float, float, float]:
    """(model, environment, driver) seconds of one turn of ``episodes`` episodes, each alone."""
    share, gpu = cluster.efficiency, cluster.gpu
    busy = min(float(cluster.servers), max(1.0, episodes))
    batch = max(1.0, episodes / busy)
    context = work.prompt(turn) + work.response_tokens / 2
    room = max(1.0, _room(student, cluster) / (context * student.kv_bytes))
    rounds = max(1.0, batch / room)
    decoding = work.response_tokens * rounds * decode_step(student, cluster, batch / rounds, context)
    fresh = work.fresh(turn)
    reading = student.forward_flops(fresh, context) * batch
    model = (
        decoding + reading / (gpu.flops * share.prefill_mfu * cluster.tensor_parallel) + share.call_seconds
    )
    environment = work.env_seconds * math.ceil(max(1.0, episodes) / cluster.workers)
    return model, environment, share.driver_call_seconds * episodes


def _room(student: ModelShape, cluster: Cluster) -> float:
    """Bytes of a server that are left for keys and values."""
    there = cluster.gpu.memory * cluster.efficiency.server_memory * cluster.tensor_parallel
    return max(there - 2.0 * student.parameters, 0.05 * there)


def _play(result: StepTime, work: Workload, student: ModelShape, cluster: Cluster) -> None:
    """Episodes: turn by turn, fewer at a time the longer it goes on, in waves of ``concurrent``."""
    waves = max(1, math.ceil(work.episodes / work.concurrent))
    at_once = work.episodes / waves
    seconds = result.seconds
    opening = work.reset_seconds + work.restart_turns * work.env_seconds
    seconds["environment"] += waves * opening * math.ceil(at_once / cluster.workers)
    if work.longest_response is not None:
        more = max(0.0, work.longest_response - work.response_tokens)
        few = max(1.0, 0.1 * at_once / cluster.servers)
        context = work.prompt(0) + work.longest_response / 2
        seconds["generation"] += waves * more * decode_step(student, cluster, few, context)
    for turn in range(work.max_turns):
        count = at_once * work.alive(turn)
        if count < 0.5:
            break
        model, environment, driver = turn_seconds(work, student, cluster, count, turn)
        if not cluster.lockstep:  # others are sampled meanwhile; what is slower than the model still shows
            environment = max(environment - 0.5 * model, min(environment, work.env_seconds))
        seconds["generation"] += waves * model
        seconds["environment"] += waves * environment
        seconds["driver"] += waves * driver
        if turn == 0:
            result.notes["sequences of a server"] = max(1.0, count / cluster.servers)
            result.notes["servers with work"] = min(float(cluster.servers), count)
            context = work.prompt(0) + work.response_tokens / 2
            result.notes["decoding step"] = decode_step(student, cluster, count / cluster.servers, context)


def _recover(result: StepTime, work: Workload, student: ModelShape, cluster: Cluster) -> None:
    """Branches: K turns each from recorded states, which are brought back first where there is a second turn."""
    if not work.recoveries or not work.recovery_turns:
        return
    middle = int(work.turns / 2)
    model, environment, driver = turn_seconds(work, student, cluster, work.recoveries, middle)
    played = max(0.0, work.recovery_turns - 1)  # the first turn's answer needs no environment
    hinted = 2 * work.recoveries * work.recovery_turns * (work.prompt(middle) + work.response_tokens)
    seconds = result.seconds
    seconds["recovery"] += work.recovery_turns * (model + driver) + played * environment
    seconds["recovery"] += _forward(hinted, work, student, cluster)
    if played:
        rounds = math.ceil(work.recoveries / cluster.workers)
        seconds["replay"] += rounds * (
            work.replay_turns * work.env_seconds + work.reset_seconds * (work.replay_turns > 0)
        )


def _name(result: StepTime, work: Workload, student: ModelShape, cluster: Cluster) -> None:
    """Reports and recovery actions of a naming teacher; the student itself reads whole episodes and answers."""
    if not work.teacher_calls:
        return
    if not work.self_teacher:
        rounds = math.ceil(work.teacher_calls / work.teacher_concurrency)
        result.seconds["teacher"] += rounds * work.teacher_seconds
        return
    batch = max(1.0, work.teacher_calls / cluster.servers)
    length = min(work.opening_tokens + work.turns * (work.observation_tokens + work.response_tokens), 16384.0)
    reading = student.forward_flops(length, length / 2) * work.teacher_calls
    rate = cluster.gpu.flops * cluster.efficiency.prefill_mfu * cluster.gpus
    decoding = work.teacher_reply_tokens * decode_step(student, cluster, batch, length)
    result.seconds["teacher"] += reading / rate + decoding + cluster.efficiency.call_seconds


def _forward(tokens: float, work: Workload, model: ModelShape, cluster: Cluster, gpus: int = 0) -> float:
    """A pass without a gradient over all GPUs."""
    rate = cluster.gpu.flops * cluster.efficiency.scoring_mfu * (gpus or cluster.gpus)
    return model.forward_flops(tokens, work.context) / rate


def _score(
    result: StepTime, work: Workload, student: ModelShape, teacher: ModelShape, cluster: Cluster
) -> None:
    """Log-probs: passes of the trainer, and what a scoring teacher reads."""
    seconds = result.seconds
    seconds["scoring"] += work.forward_passes * _forward(work.trained_tokens, work, student, cluster)
    if work.scoring:
        tokens = work.episodes * work.episode_tokens
        if work.scoring_per_turn:
            whole = [work.alive(t) * (work.prompt(t) + work.response_tokens) for t in range(work.max_turns)]
            tokens = work.episodes * sum(whole)
        seconds["teacher"] += _forward(tokens, work, teacher, cluster, cluster.teacher_gpus)
        seconds["teacher"] += cluster.efficiency.call_seconds * (work.turns if work.scoring_per_turn else 1.0)


def _update(result: StepTime, work: Workload, student: ModelShape, cluster: Cluster) -> None:
    """Forward, backward and, with checkpointing, forward again; the shards' collectives where they are slower."""
    share, gpu = cluster.efficiency, cluster.gpu
    passes = 4.0 if share.checkpointing else 3.0
    flops = passes * student.forward_flops(work.trained_tokens, work.context)
    computing = flops / (gpu.flops * share.train_mfu * cluster.gpus)
    batches = max(1.0, math.ceil(work.trained_tokens / cluster.gpus / share.micro_batch_tokens))
    moved = 2.0 * student.parameters * (cluster.gpus - 1) / cluster.gpus
    gathers = 3.0 if share.checkpointing else 2.0
    sending = (batches * gathers + 2.0) * moved / (cluster.link * share.link_share)
    stepping = 28.0 * student.parameters / cluster.gpus / (gpu.bandwidth * share.decode_mbu)
    result.seconds["update"] += max(computing, sending) + stepping
    result.notes["trainer's communication over its computing"] = sending / computing


def _sync(student: ModelShape, cluster: Cluster) -> float:
    """New weights to every server: gathered from the shards and read by each."""
    share = cluster.efficiency
    return share.sync_seconds + 2.0 * student.parameters / (cluster.link * share.sync_share)
