"""Settings that a method is published with, laid under the user's own."""

from __future__ import annotations

from typing import Any

from turnpoint.config import ConfigError
from turnpoint.config.load import merge
from turnpoint.methods import MethodSettings, method_registry
from turnpoint.policy.settings import policy_registry


def with_method_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` of a run config with ``MethodSettings.defaults`` where it says nothing itself.

    Settings that the chosen policy does not have are left out; the method's ``check_backend`` then says whether it
    can do without. Faults in ``data`` are left to validation.
    """
    result = dict(data)
    for section, values in _defaults(data.get("method")).items():
        given = result.get(section, {})
        given = {"kind": given} if isinstance(given, str) else given
        if not isinstance(given, dict):
            continue
        below = dict(values)
        if "kind" in given:
            below = _known(section, given["kind"], below) | {"kind": given["kind"]}
        result[section] = merge(below, given)
    return result


def _defaults(method: Any) -> dict[str, Any]:
    if isinstance(method, MethodSettings):
        return dict(method.defaults)
    kind = method.get("kind") if isinstance(method, dict) else method
    try:
        return dict(method_registry.get(str(kind)).defaults)
    except ConfigError:
        return {}


def _known(section: str, kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Those of ``values`` that the section's settings class has."""
    if section != "policy":
        return values
    try:
        fields = policy_registry.get(str(kind)).model_fields
    except ConfigError:
        return {}
    return {name: value for name, value in values.items() if name in fields}
