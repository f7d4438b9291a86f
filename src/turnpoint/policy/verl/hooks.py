"""The contract with verl: which of its names are used, with which parameters; checked before anything starts."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from turnpoint.config import ConfigError

SUPPORTED = ">=0.9.1,<0.10"
"""Versions of verl this adapter was written against."""

WORKER = "verl.workers.engine_workers:ActorRolloutRefWorker"
SERVERS = "verl.workers.rollout.llm_server:LLMServerManager"
SYNC = "verl.checkpoint_engine:CheckpointEngineManager"
BALANCER = "verl.workers.rollout.router:GlobalRequestLoadBalancer"
RAY = "verl.single_controller.ray"
TEACHERS = "verl.experimental.teacher_loop.teacher_model:TeacherModelManager"

HOOKS: dict[str, tuple[str, ...]] = {
    f"{WORKER}.__init__": ("config", "role", "distillation_config"),
    f"{WORKER}.init_model": (),
    f"{WORKER}.update_actor": ("data",),
    f"{WORKER}.compute_log_prob": ("data",),
    f"{WORKER}.compute_ref_log_prob": ("data",),
    f"{WORKER}.save_checkpoint": ("local_path", "global_step", "max_ckpt_to_keep"),
    f"{WORKER}.load_checkpoint": ("local_path",),
    f"{SERVERS}.create": (),
    f"{SERVERS}.__init__": ("config", "worker_group"),
    f"{SERVERS}.get_client": ("client_cls",),
    f"{SERVERS}.get_replicas": (),
    "verl.workers.rollout.llm_server:LLMServerClient.generate": ("request_id", "prompt_ids", "sampling_params"),
    "verl.workers.rollout.replica:RolloutReplica.__init__": (
        "replica_rank", "config", "model_config", "gpus_per_node",
    ),
    "verl.workers.rollout.replica:RolloutReplica.init_hybrid": ("worker_group",),
    f"{SYNC}.__init__": ("config", "actor_wg", "replicas"),
    f"{SYNC}.update_weights": ("global_steps",),
    f"{SYNC}.sleep_replicas": (),
    f"{BALANCER}.add_servers": ("servers",),
    f"{BALANCER}.remove_servers": ("server_ids",),
    f"{RAY}:RayWorkerGroup.spawn": ("prefix_set",),
    f"{RAY}:RayClassWithInitArgs.__init__": ("cls",),
    f"{RAY}:ResourcePoolManager.__init__": ("resource_pool_spec", "mapping"),
    f"{RAY}:create_colocated_worker_cls": ("class_dict",),
    "verl.utils.tensordict_utils:get_tensordict": ("tensor_dict", "non_tensor_dict"),
    "verl.workers.utils.padding:response_from_nested": ("tensor", "response_mask"),
    "verl.utils.config:omega_conf_to_dataclass": ("config",),
    "verl.trainer.constants_ppo:get_ppo_ray_runtime_env": ("config",),
    f"{TEACHERS}.__init__": ("distillation_config", "teacher_model_config", "resource_pool"),
    "verl.workers.rollout.llm_server:LLMServerClient.__init__": ("config", "load_balancer_handle"),
}  # fmt: skip
"""Names of verl that are called, and the parameters they are called with."""

BATCH_FIELDS = ("prompts", "responses", "input_ids", "position_ids", "response_mask", "loss_mask")
"""Fields that verl's engine reads of every batch, besides what its loss reads."""


def check_hooks() -> None:
    """Raise ``ConfigError`` if the installed verl is not one this adapter knows, with everything that differs."""
    version = installed_version()
    faults = list(drifted())
    if not _supported(version):
        faults.insert(0, f"version {version} is installed")
    if faults:
        raise ConfigError(
            f"policy.kind=verl works with verl {SUPPORTED}; {'; '.join(faults)}. "
            f"pip install 'verl{SUPPORTED}', or train with backend=local"
        )


def installed_version() -> str:
    """Version of the verl that would be imported."""
    import verl

    return str(verl.__version__)


def _supported(version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(SUPPORTED).contains(version, prereleases=True)


def drifted(hooks: dict[str, tuple[str, ...]] | None = None) -> Iterator[str]:
    """A sentence for each of ``hooks`` (default: ``HOOKS``) that is gone or takes other parameters."""
    for name, wanted in (HOOKS if hooks is None else hooks).items():
        try:
            found = _parameters(resolve(name))
        except (ImportError, AttributeError) as error:
            yield f"{name} is gone ({error})"
            continue
        missing = [parameter for parameter in wanted if parameter not in found and "**" not in found]
        if missing:
            yield f"{name} takes no {', '.join(missing)} (only {', '.join(found)})"


def resolve(name: str) -> Any:
    """The object that ``module:attribute.path`` names; Ray's wrappers are taken off."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
        found = getattr(getattr(found, "__ray_metadata__", None), "modified_class", found)
    return found


def _parameters(function: Any) -> list[str]:
    """Names of the parameters; ``**`` stands for any."""
    kinds = inspect.signature(inspect.unwrap(function)).parameters
    return ["**" if p.kind is p.VAR_KEYWORD else name for name, p in kinds.items() if name != "self"]
