"""Strict settings, registries of kinds, YAML with dotted overrides. This room imports no other."""

from turnpoint.config.explain import explain
from turnpoint.config.load import apply_overrides, load_yaml
from turnpoint.config.registry import Registry
from turnpoint.config.strict import ConfigError, Settings

__all__ = ["ConfigError", "Registry", "Settings", "apply_overrides", "explain", "load_yaml"]
