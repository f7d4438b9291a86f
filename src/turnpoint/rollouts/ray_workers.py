"""Environment workers as Ray actors, on this machine or anywhere in a cluster (extra ``ray``)."""

from __future__ import annotations

from typing import Any

from turnpoint.config import ConfigError
from turnpoint.envs import Capabilities, EnvSettings
from turnpoint.rollouts.remote import START_SECONDS, EnvServer, EnvWorkers, WorkerDied
from turnpoint.rollouts.settings import RolloutSettings


class RayHandle:
    """An actor that serves an ``EnvServer``."""

    def __init__(self, settings: EnvSettings, cpus: float) -> None:
        import ray

        options = {"num_cpus": cpus, "max_restarts": 0, "max_concurrency": 1}
        self._ray: Any = ray
        self.actor: Any = ray.remote(EnvServer).options(**options).remote(settings)

    def call(self, method: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        """See ``Handle``."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(self.actor.answer.remote(method, arguments), timeout=seconds)
        except errors.GetTimeoutError:
            raise TimeoutError(f"no answer to {method} within {seconds:g} s") from None
        except (errors.RayActorError, errors.RayTaskError, errors.RaySystemError) as error:
            raise WorkerDied(f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:300]}") from None

    def kill(self) -> None:
        """See ``Handle``."""
        if self._ray.is_initialized():
            self._ray.kill(self.actor, no_restart=True)


def start_workers(
    env: EnvSettings, capabilities: Capabilities, settings: RolloutSettings, *, seconds: float = START_SECONDS
) -> EnvWorkers:
    """The workers of ``rollout.env_workers=ray``, all of them up. Joins a running cluster, or starts one here.

    Raises ``ConfigError`` if Ray is missing or has no room for them.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise ConfigError(
            "rollout.env_workers is ray, but ray is not installed; pip install 'turnpoint[ray]', or set it to threads"
        ) from None
    if not ray.is_initialized():
        try:
            ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
        except Exception as error:  # Ray raises plain exceptions where its processes do not come up in time
            raise ConfigError(
                f"rollout.env_workers is ray, but Ray did not start: {str(error).strip()[:300]}; start a cluster with "
                "'ray start --head' and try again, or set it to threads"
            ) from error
    cpus = settings.env_worker_cpus
    free = float(ray.available_resources().get("CPU", 0.0))
    count = settings.env_worker_count or max(1, min(settings.concurrent, int(free / 2 / max(cpus, 0.01))))
    if count * cpus > free:
        raise ConfigError(
            f"rollout.env_worker_count is {count} with rollout.env_worker_cpus={cpus:g} each, but Ray has {free:g} "
            f"CPUs free; set the count to {int(free / cpus)} or less, fewer CPUs for each, or add machines"
        )
    workers = EnvWorkers(
        lambda: RayHandle(env, cpus), capabilities, count=count, seconds=settings.env_seconds
    )
    try:
        workers.warm_up(seconds)
    except (WorkerDied, TimeoutError) as error:
        workers.close()
        raise ConfigError(
            f"the {count} environment workers did not start: {error}; the environment and its data must be installed "
            "on every machine of the cluster, or set rollout.env_workers=threads"
        ) from None
    return workers
