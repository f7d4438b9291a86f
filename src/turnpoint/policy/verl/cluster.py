"""The Ray cluster: connecting to one or starting one, and what every process of verl gets to know."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.policy.verl.settings import VerlPolicySettings

_ATTEMPTS = 3
LOGICAL_CPUS = 64
"""CPUs that Ray counts in a cluster of its own without GPUs; its actors only reserve them."""


def prepare_environment(settings: VerlPolicySettings) -> None:
    """Set what verl reads from the environment; before verl is imported for the first time."""
    wanted = _variables(settings)
    if "verl" in sys.modules and any(os.environ.get(name) != value for name, value in wanted.items()):
        raise ConfigError(
            "verl was imported in this process before, without policy.device="
            f"{settings.device} and policy.external_modules={settings.external_modules}; start a new process"
        )
    os.environ.update(wanted)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name in settings.external_modules:
        # One that was imported before did not know that it is asked for, and verl will not import it again.
        if "verl" not in sys.modules and name in sys.modules:
            importlib.reload(sys.modules[name])


def _variables(settings: VerlPolicySettings) -> dict[str, str]:
    result = {"TOKENIZERS_PARALLELISM": "false"}
    if settings.external_modules:
        result["VERL_USE_EXTERNAL_MODULES"] = ",".join(settings.external_modules)
    if settings.device == "cpu":
        result["VERL_PLATFORM"] = "cpu"
        result["VERL_ENGINE_DEVICE"] = "cuda"
    return result


def connect(settings: VerlPolicySettings, config: Any) -> bool:
    """Connect to Ray unless this process is connected; whether the connection is ours to close.

    Raises ``ConfigError`` if a cluster of that address cannot be reached.
    """
    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    if ray.is_initialized():
        return False
    runtime = get_ppo_ray_runtime_env(config)
    runtime.pop("working_dir", None)
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **_variables(settings)}
    for name in ("OMP_NUM_THREADS", "HF_HUB_OFFLINE"):
        if name in os.environ:
            runtime["env_vars"][name] = os.environ[name]
    given = OmegaConf.to_container(config.ray_kwargs.get("ray_init", {})) or {}
    assert isinstance(given, dict)
    options: dict[str, Any] = {str(k): v for k, v in given.items() if v is not None}
    options["runtime_env"] = {**runtime, **options.get("runtime_env", {})}
    address = settings.ray_address or os.environ.get("RAY_ADDRESS")
    if address:
        options["address"] = address
        options.pop("num_cpus", None)
    elif settings.device == "cpu":
        # GPUs are logical here: verl reserves one for each process.
        options = {"num_cpus": LOGICAL_CPUS, "num_gpus": settings.gpus + 8, **options}
    where = f"Ray at {address}" if address else "a Ray cluster of its own"
    for attempt in range(_ATTEMPTS):
        try:
            ray.init(include_dashboard=False, logging_level=logging.WARNING, log_to_driver=_loud(), **options)
            break
        except (
            Exception
        ) as error:  # Ray raises plain ones too, above all when a busy machine starts it slowly
            ray.shutdown()
            if attempt + 1 == _ATTEMPTS or "timed out" not in str(error):
                raise ConfigError(
                    f"policy.kind=verl cannot start {where}: {type(error).__name__}: {error}; check "
                    "policy.ray_address (ray status shows a cluster)"
                ) from error
    return True


def _loud() -> bool:
    """Whether output of verl's processes is shown; it is in Ray's session folder in any case."""
    return os.environ.get("TURNPOINT_VERL_LOGS", "") not in ("", "0")


def check_resources(settings: VerlPolicySettings) -> None:
    """Raise ``ConfigError`` if the cluster has too few GPUs, before verl waits for them for ever."""
    import ray

    total = ray.cluster_resources().get("GPU", 0)
    if total < settings.gpus:
        raise ConfigError(
            f"policy.nodes * policy.gpus_per_node is {settings.gpus}, but the Ray cluster has {total:g} GPUs; "
            "set what there is"
        )
