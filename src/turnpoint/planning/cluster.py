"""The machines of a plan, and what share of their data sheets software reaches: assumptions, each a setting."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field, NonNegativeFloat, PositiveInt

from turnpoint.config import Settings
from turnpoint.planning.hardware import Gpu


class Efficiency(Settings):
    """Shares of the data sheets, and fixed costs: assumptions, unless a profile of ``benchmarks.cost_model`` says."""

    prefill_mfu: float = Field(default=0.40, gt=0.0, le=1.0)
    """Share of the peak operations that prefill reaches."""
    scoring_mfu: float = Field(default=0.30, gt=0.0, le=1.0)
    """The same for forward passes of the trainer, which score tokens."""
    train_mfu: float = Field(default=0.30, gt=0.0, le=1.0)
    """The same for forward and backward passes of short sequences."""
    decode_mbu: float = Field(default=0.50, gt=0.0, le=1.0)
    """Share of the memory bandwidth that decoding reaches."""
    decode_mfu: float = Field(default=0.25, gt=0.0, le=1.0)
    """Share of the peak operations where decoding is bound by them: large batches."""
    decode_seconds: NonNegativeFloat = 0.006
    """Fixed part of one decoding step: launches, scheduling, sampling."""
    call_seconds: NonNegativeFloat = 0.05
    """Fixed part of one model call: the way to a server and back, queueing."""
    driver_call_seconds: NonNegativeFloat = 0.0030
    """CPU time of the driving process for one turn; it is one Python process. Measured: 0.0004 for prompt, tokens and
    records, 0.0023 for calls of an environment's actor; the rest is allowed for the server's."""
    driver_row_seconds: NonNegativeFloat = 0.0003
    """CPU time of the driving process for one row: credit, and sending it to the trainer."""
    sync_seconds: NonNegativeFloat = 2.0
    """Fixed part of sending new weights to the servers: waking, sleeping, handles."""
    sync_share: float = Field(default=0.25, gt=0.0, le=1.0)
    """Share of the links that the weights then reach."""
    link_share: float = Field(default=0.70, gt=0.0, le=1.0)
    """Share of the links that the trainer's collectives reach."""
    server_memory: float = Field(default=0.60, gt=0.0, le=1.0)
    """Share of a GPU's memory that a rollout server may use."""
    checkpointing: bool = True
    """The update computes activations a second time in the backward pass."""
    micro_batch_tokens: PositiveInt = 16384
    """Tokens of one forward-backward pass on a GPU."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines."""

    gpu: Gpu
    gpus: int
    """GPUs that train and sample."""
    efficiency: Efficiency
    tensor_parallel: int = 1
    """GPUs of one rollout server."""
    gpus_per_node: int = 8
    env_workers: int | None = None
    """Environment copies that work at the same time; None = 16 for each GPU."""
    teacher_gpus: int = 0
    """Further GPUs of a scoring teacher; 0 = it shares those that train."""
    lockstep: bool = False
    """The model waits for environments, instead of working for other episodes meanwhile."""

    @property
    def servers(self) -> int:
        """Rollout servers."""
        return max(1, self.gpus // self.tensor_parallel)

    @property
    def workers(self) -> int:
        """Environment copies that work at the same time."""
        return self.env_workers or 16 * self.gpus

    @property
    def nodes(self) -> int:
        """Machines."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def link(self) -> float:
        """Bytes a second of the trainer's slowest link, per GPU."""
        return self.gpu.node_link if self.nodes == 1 else self.gpu.network


class ClusterSettings(Settings):
    """What a user may set of the machines."""

    tensor_parallel: PositiveInt | None = None
    """GPUs of one rollout server; None = as few as hold the weights twice over."""
    gpus_per_node: PositiveInt = 8
    """GPUs of one machine."""
    env_workers: PositiveInt | None = None
    """Environment copies that work at a time; None = ``rollout.env_worker_count``, or 16 for each GPU."""
    teacher_gpus: int | None = Field(default=None, ge=0)
    """Further GPUs of a scoring teacher, 0 = it shares those that train; None = what ``scoring`` says."""
    lockstep: bool | None = None
    """None = ``rollout.lockstep``."""
