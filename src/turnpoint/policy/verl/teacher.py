"""verl's teacher pool: servers with a frozen model on GPUs of their own, asked for log-probs of given tokens."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import numpy as np
import ray
from omegaconf import OmegaConf, open_dict
from verl.experimental.teacher_loop.teacher_model import TeacherModelManager
from verl.single_controller.ray import ResourcePoolManager
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import Floats
from turnpoint.policy.verl.loop import LoopThread

_PARAMS = {"prompt_logprobs": 0, "max_tokens": 1, "temperature": 1.0, "detokenize": False}


class TeacherLost(RuntimeError):
    """A teacher server is gone."""


class TeacherServers:
    """One teacher of the pool."""

    def __init__(
        self, config: Any, *, name: str, model: str, gpus: int, nodes: int, tensor_parallel: int, context: int
    ) -> None:
        """Start its servers: ``gpus`` on each of ``nodes``, ``tensor_parallel`` of them for each server."""
        self._closed = False
        self.loop = LoopThread()
        self.context = context
        name = f"{name}{uuid4().hex[:8]}"  # Ray knows pools and servers by name, those of earlier runs too
        config = OmegaConf.create(config)
        with open_dict(config):
            config.distillation.enabled = True
            config.distillation.nnodes = nodes
            config.distillation.n_gpus_per_node = gpus
            config.distillation.distillation_loss.loss_mode = "k1"  # one log-prob for each token
            config.distillation.distillation_loss.use_policy_gradient = True
            teacher = config.distillation.teacher_models.teacher_model
            teacher.model_path = model
            teacher.inference.tensor_model_parallel_size = tensor_parallel
            teacher.inference.max_model_len = context + 1
            teacher.inference.prompt_length = context // 2  # only their sum matters
            teacher.inference.response_length = context - context // 2
        pool = f"turnpoint_teacher_{name}"
        pools = ResourcePoolManager(resource_pool_spec={pool: [gpus] * nodes}, mapping={"teacher": pool})
        try:
            pools.create_resource_pool()
        except ValueError as error:
            raise ConfigError(
                f"there is no room for a teacher of {nodes} x {gpus} GPUs beside the policy: {error}; add GPUs to the "
                "Ray cluster, or lower scoring.gpus_per_node"
            ) from error
        self._pool = pools.get_resource_pool("teacher")
        wanted = omega_conf_to_dataclass(config.distillation)
        (chosen,) = wanted.teacher_models.values()
        chosen.key = name  # part of the servers' names in Ray
        self.manager = TeacherModelManager(wanted, chosen, self._pool)
        self.client = LLMServerClient(config=config, load_balancer_handle=self.manager.load_balancer_handle)

    async def logprobs(self, ids: tuple[int, ...], session: str, seconds: float | None) -> Floats:
        """Log-prob of each of ``ids`` but the first, [n - 1]. Raises ``TimeoutError`` and ``TeacherLost``."""
        answer = self.loop.start(
            self.client.generate(request_id=session, prompt_ids=list(ids), sampling_params=dict(_PARAMS))
        )
        try:
            output = await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
        except ray.exceptions.RayError as error:
            raise TeacherLost(str(error).strip().splitlines()[-1][:300]) from error
        fields = output.extra_fields
        if [entry[0] for entry in fields["prompt_ids"]][: len(ids) - 1] != list(ids[1:]):
            raise TeacherLost("a teacher server returned log-probs of other tokens than it was asked for")
        return np.asarray([entry[0] for entry in fields["prompt_logprobs"]][: len(ids) - 1], dtype=np.float64)

    def close(self) -> None:
        """End the servers and give their GPUs back; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self.loop.close()
        for replica in self.manager.rollout_replicas:
            for handle in [*replica.servers, *replica.workers]:
                ray.kill(handle)
        ray.kill(self.manager.load_balancer_handle)
        for group in self._pool.get_placement_groups():
            ray.util.remove_placement_group(group)
