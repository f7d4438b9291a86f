"""How verl starts the rollout server and pushes weights to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from turnpoint.testing.verl_cpu.server import CpuServer


def server_name(replica_rank: int) -> str:
    """Name of the Ray actor that serves the student's replica of this number."""
    return f"turnpoint_cpu_actor_{replica_rank}"


class CpuReplica(RolloutReplica):  # type: ignore[misc]
    """One server, whatever the tensor-parallel size."""

    def rollout_worker_use_gpu(self) -> bool:
        return True

    async def launch_servers(self) -> None:
        """Start the Ray actor and wait until its model is loaded."""
        name = server_name(self.replica_rank)
        if self.is_teacher_model:
            name = f"turnpoint_cpu_teacher_{self.replica_rank}{self.name_suffix}"
        server = (
            ray.remote(CpuServer)
            .options(name=name, num_cpus=0, max_concurrency=1000)
            .remote(config=self.config, model_config=self.model_config)
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class CpuServerAdapter(BaseRollout):  # type: ignore[misc]
    """Lives in a training process and pushes the gathered weights to the server of its replica."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **_: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        size = (
            config.tensor_model_parallel_size
            * config.data_parallel_size
            * config.pipeline_model_parallel_size
        )
        rank = int(os.environ.get("RANK", 0))
        self.replica_rank = rank // size if replica_rank == -1 else replica_rank
        self.is_leader_rank = rank % size == 0

    async def resume(self, tags: Sequence[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None:
        """A CPU has no memory to free for others."""

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        """Gather all weights (a collective call) and give them to the server."""
        named: dict[str, torch.Tensor] = {}
        if hasattr(weights, "__aiter__"):
            async for name, tensor in weights:
                named[name] = tensor.detach().cpu().float().clone()
        else:
            for name, tensor in weights:
                named[name] = tensor.detach().cpu().float().clone()
        if self.is_leader_rank:
            await ray.get_actor(server_name(self.replica_rank)).load_weights.remote(named, global_steps)
