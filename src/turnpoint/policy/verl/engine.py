"""verl's own parts, started and held together: training workers, rollout servers, and the way between them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ray
from verl.checkpoint_engine import CheckpointEngineManager
from verl.single_controller.ray import (
    RayClassWithInitArgs,
    RayWorkerGroup,
    ResourcePoolManager,
    create_colocated_worker_cls,
)
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.rollout.llm_server import LLMServerClient, LLMServerManager

from turnpoint.policy.verl.errors import EngineError
from turnpoint.policy.verl.loop import LoopThread
from turnpoint.policy.verl.settings import VerlPolicySettings

_POOL = "turnpoint"
_ALIVE_SECONDS = 30.0
"""How long a server may take to say that it is alive."""


def says_engine_is_dead(error: BaseException) -> bool:
    """Whether a server that lives answered that the process which computes for it is gone.

    Known by the name of vLLM's exception, since vLLM need not be installed where this runs.
    """
    return isinstance(error, ray.exceptions.RayTaskError) and "EngineDeadError" in str(error)


def _has_lost_engine(server: Any) -> bool:
    """Runs in a server's process: vLLM's engine keeps there whether the process that computes is gone."""
    return bool(getattr(getattr(server, "engine", None), "errored", False))


def _end(servers: Sequence[Any]) -> None:
    """Kill servers and wait until Ray knows it: their names are taken until then."""
    for server in servers:
        ray.kill(server)
    for server in servers:
        with suppress(ray.exceptions.RayError):
            ray.get(server.__ray_ready__.remote(), timeout=_ALIVE_SECONDS)


class VerlEngine:
    """Workers, servers and weights. Trainer and servers share GPUs, so one of them is at work at a time."""

    def __init__(self, settings: VerlPolicySettings, config: Any) -> None:
        """Start everything; the servers have the trainer's weights afterwards."""
        self.settings, self.config = settings, config
        self.loop = LoopThread()
        self.version = 0
        """Number of the weights; verl calls it global_steps."""
        self.restarts = 0
        """Servers that died and were started again."""
        self.in_flight: set[concurrent.futures.Future[Any]] = set()
        """Calls that servers work on."""
        self._shares_memory = bool(config.actor_rollout_ref.rollout.free_cache_engine)
        self._awake, self._stale = False, True
        self.workers = self._start_workers()
        self.servers, self.sync = self.loop.run(self._start_servers())
        self.client: LLMServerClient = self.servers.get_client()
        self.to_servers()

    def _start_workers(self) -> Any:
        role = "actor_rollout_ref" if self.settings.with_reference else "actor_rollout"
        pools = ResourcePoolManager(
            resource_pool_spec={_POOL: [self.settings.gpus_per_node] * self.settings.nodes},
            mapping={role: _POOL},
        )
        pools.create_resource_pool()
        self._pool = pools.get_resource_pool(role)
        wanted = RayClassWithInitArgs(
            cls=ray.remote(ActorRolloutRefWorker),
            config=self.config.actor_rollout_ref,
            distillation_config=None,
            role=role,
        )
        classes = {role: wanted}
        group = RayWorkerGroup(
            resource_pool=self._pool,
            ray_cls_with_init=create_colocated_worker_cls(class_dict=classes),
            device_name=self.settings.device,
        )
        workers = group.spawn(prefix_set=classes.keys())[role]
        workers.init_model()
        return workers

    async def _start_servers(self) -> tuple[LLMServerManager, CheckpointEngineManager]:
        servers = await LLMServerManager.create(
            config=self.config, worker_group=self.workers, rollout_resource_pool=self._pool
        )
        options = omega_conf_to_dataclass(self.config.actor_rollout_ref.rollout.checkpoint_engine)
        options.backend = "naive"
        sync = CheckpointEngineManager(config=options, actor_wg=self.workers, replicas=servers.get_replicas())
        await sync.sleep_replicas()
        return servers, sync

    # -- who is at work ------------------------------------------------------------------------------------

    def to_servers(self) -> None:
        """Servers have the GPUs and the newest weights afterwards; one that died meanwhile is started again."""
        if self._awake and not self._stale:
            return
        try:
            self.loop.run(self._update_weights())
        except ray.exceptions.RayError as error:
            if not self._restart_dead():
                raise EngineError(
                    f"weights could not be sent to the rollout servers: {error}; resume from the last checkpoint"
                ) from error
            self.loop.run(self._update_weights())
        self._awake, self._stale = True, False

    async def _update_weights(self) -> None:
        if self._awake and self._shares_memory:
            await self.sync.sleep_replicas()
        await self.sync.update_weights(global_steps=self.version)

    def to_trainer(self) -> None:
        """The trainer has the GPUs afterwards; calls in flight are finished first, and keep their results."""
        if self._shares_memory and self._awake:
            self.settle()
            self.loop.run(self._sleep())
            self._awake = False

    async def _sleep(self) -> None:
        await self.sync.sleep_replicas()

    def weights_changed(self) -> None:
        """The trainer's weights are no longer those of the servers."""
        self.version += 1
        self._stale = True

    def settle(self) -> None:
        """Wait until no server is at work."""
        concurrent.futures.wait(list(self.in_flight))

    # -- servers that die ----------------------------------------------------------------------------------

    def revive(self) -> int:
        """Start servers that are dead or do not answer again, with the newest weights; returns how many."""
        restarted = self._restart_dead()
        if restarted:
            self._stale = True
            self.to_servers()
        return restarted

    def _restart_dead(self) -> int:
        self.settle()
        dead = [n for n, replica in enumerate(self.servers.rollout_replicas) if not self._alive(replica)]
        if self.restarts + len(dead) > self.settings.server_restarts:
            raise EngineError(
                f"{len(dead)} rollout server(s) died after {self.restarts} restarts, and policy.server_restarts is "
                f"{self.settings.server_restarts}; look at Ray's logs for the cause, then resume the run"
            )
        for number in dead:
            self.loop.run(self._restart(number))
        self.restarts += len(dead)
        return len(dead)

    def _alive(self, replica: Any) -> bool:
        """Whether all its servers answer and none has lost its engine; if not, they are ended."""
        with suppress(ray.exceptions.RayError):
            asked = [server.__ray_call__.remote(_has_lost_engine) for server in replica.servers]
            if not any(ray.get(asked, timeout=_ALIVE_SECONDS)):
                return True
        _end(replica.servers)
        return False

    async def _restart(self, number: int) -> None:
        manager = self.servers
        old = manager.rollout_replicas[number]
        balancer = manager.global_load_balancer
        await balancer.remove_servers.remote(server_ids=[old.server_address])
        fresh = type(old)(
            replica_rank=old.replica_rank,
            config=manager.rollout_config,
            model_config=manager.model_config,
            gpus_per_node=manager.rollout_config.n_gpus_per_node,
        )
        await fresh.init_hybrid(self.workers)
        manager.rollout_replicas[number] = fresh
        manager.server_handles[number] = fresh.server_handle
        manager.server_addresses[number] = fresh.server_address
        self.sync.replicas[number] = fresh
        await balancer.add_servers.remote(servers={fresh.server_address: fresh.server_handle})

    def close(self) -> None:
        """End all processes and give their resources back."""
        self.loop.close()
        handles = [*self.workers.workers, self.servers.global_load_balancer]
        handles += [server for replica in self.servers.rollout_replicas for server in replica.servers]
        for handle in handles:
            ray.kill(handle)
        for group in self._pool.get_placement_groups():
            ray.util.remove_placement_group(group)
