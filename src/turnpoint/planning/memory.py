"""What a GPU has to hold while it trains, and while it samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from turnpoint.planning.cluster import Cluster
from turnpoint.planning.shapes import ModelShape
from turnpoint.planning.workload import Workload

_STATE_BYTES = 16.0
"""A trained weight: 4 for itself, 4 for its gradient, 8 for AdamW's moments, all in float32 and sharded."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes of one GPU."""

    training: float
    """Shards of weights, gradients and moments, one layer's full weights, and activations of a micro-batch."""
    sampling: float
    """Weights of a server's share, and keys and values of its sequences."""
    there: float

    @property
    def fits(self) -> bool:
        """Training fits; sampling fits beside the sharded state, or alone if that is moved to the host meanwhile."""
        return self.training < 0.9 * self.there and self.sampling < 0.9 * self.there

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"fits": self.fits}


def memory_need(student: ModelShape, cluster: Cluster, work: Workload) -> MemoryNeed:
    """The larger parts; what engines keep beside them (graphs, buffers, fragments) is about a tenth more."""
    share = cluster.efficiency
    state = _STATE_BYTES * student.parameters / cluster.gpus
    layer = 2 * 2.0 * student.parameters / student.layers
    width = student.heads * student.head_dim
    kept = 2.0 * student.layers * width * share.micro_batch_tokens
    inside = 2.0 * 40 * width * share.micro_batch_tokens
    logits = 2 * 4.0 * 2**27  # a chunk of log-softmax and its gradient
    activations = kept + inside if share.checkpointing else student.layers * inside / 2
    sequences = max(1.0, min(work.episodes, work.concurrent) / cluster.servers)
    longest = work.prompt(work.max_turns) + work.response_tokens
    cache = sequences * longest * student.kv_bytes / cluster.tensor_parallel
    weights = 2.0 * student.parameters / cluster.tensor_parallel
    room = cluster.gpu.memory * share.server_memory
    return MemoryNeed(
        training=state + layer + activations + logits,
        sampling=weights + min(cache, max(room - weights, 0.0)),
        there=cluster.gpu.memory,
    )


def tensor_parallel_for(student: ModelShape, memory: float, gpus: int) -> int:
    """Fewest GPUs (a power of two) of a server whose memory is twice the weights."""
    wide = 1
    while wide < gpus and 2 * 2.0 * student.parameters > wide * memory:
        wide *= 2
    return wide
