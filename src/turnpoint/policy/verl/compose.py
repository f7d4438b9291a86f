"""verl's own config, composed from its defaults and our table."""

from __future__ import annotations

from typing import Any

from turnpoint.config import ConfigError


def compose_config(table: dict[str, Any]) -> Any:
    """verl's trainer config (an OmegaConf ``DictConfig``) with ``table`` of dotted names laid over it.

    Raises ``ConfigError`` for names that verl does not have and values it refuses.
    """
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf, open_dict
    from omegaconf.errors import OmegaConfBaseException

    GlobalHydra.instance().clear()
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    for name, value in table.items():
        try:
            with open_dict(config):
                _check_parent(config, name)
                OmegaConf.update(config, name, value, merge=True)
        except (OmegaConfBaseException, AttributeError, KeyError) as error:
            raise ConfigError(f"policy.verl: {name}={value!r} does not fit verl's config: {error}") from error
    _check_actor(config)
    return config


_OPEN = ("override_config", "mixed_precision", "engine_kwargs", "override_optimizer_config", "ray_init")
"""Sections of verl that take names its defaults do not list."""


def _check_parent(config: Any, name: str) -> None:
    """Refuse a name whose place verl's config does not have; verl itself would ignore it silently."""
    from omegaconf import OmegaConf

    head, _, last = name.rpartition(".")
    if any(part in _OPEN for part in head.split(".")):
        return
    parent = OmegaConf.select(config, head)
    if parent is None or last not in list(parent.keys()):
        known = sorted(parent.keys()) if parent is not None else sorted(config.keys())
        raise ConfigError(
            f"policy.verl sets {name}, which verl's config does not have; {head or 'it'} has {', '.join(known)}"
        )


def _check_actor(config: Any) -> None:
    """Let verl's own dataclasses look at their sections before any process starts."""
    from verl.utils.config import omega_conf_to_dataclass

    for part in ("actor", "rollout"):
        try:
            omega_conf_to_dataclass(config.actor_rollout_ref[part])
        except Exception as error:
            raise ConfigError(f"verl refuses the {part} settings that follow from policy: {error}") from error
