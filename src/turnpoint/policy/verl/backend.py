"""``backend: verl`` in a recipe: its policy section rewritten for verl, before it is validated."""

from __future__ import annotations

from typing import Any

from turnpoint.config import ConfigError, Settings
from turnpoint.policy.settings import policy_registry

HERE_ONLY = ("device", "threads", "cache_rows", "merge_rows")
"""Settings of the local policy that change its speed or place and no result; verl has its own ways."""
OF_MODEL = ("context_length",)
"""Settings that both the model that is made first and its training need."""


def with_backend(data: dict[str, Any]) -> dict[str, Any]:
    """``data`` of a run config without ``backend``, its policy on that backend.

    ``local`` leaves everything as it is. Raises ``ConfigError`` for unknown backends and policies verl cannot take.
    """
    backend = data.get("backend", "local")
    result = {key: value for key, value in data.items() if key != "backend"}
    if backend == "local":
        return result
    if backend != "verl":
        raise ConfigError(f"backend is '{backend}'; set local or verl")
    policy = result.get("policy")
    policy = {"kind": policy} if isinstance(policy, str) else policy
    if not isinstance(policy, dict) or "kind" not in policy:
        raise ConfigError("backend=verl needs a policy section with a kind (local, small or verl)")
    if policy["kind"] != "verl":
        result["policy"] = _translated(policy)
    return result


def _translated(policy: dict[str, Any]) -> dict[str, Any]:
    """A ``local`` or ``small`` section as a ``verl`` one; what makes the built-in agent goes to ``start``."""
    from turnpoint.policy.verl.settings import VerlPolicySettings

    kind = str(policy["kind"])
    if kind not in ("local", "small"):
        raise ConfigError(
            f"backend=verl can take a policy of kind local, small or verl, not '{kind}'; "
            "set policy.kind=verl with the settings of that policy"
        )
    ours, theirs = VerlPolicySettings.model_fields, policy_registry.get(kind).model_fields
    result: dict[str, Any] = {"kind": "verl"}
    start: dict[str, Any] = {"kind": kind}
    for name, value in policy.items():
        if name == "kind" or (name in HERE_ONLY and _of_local(name, value)):
            continue
        if name in ours or name not in theirs:  # an unknown name is left to validation
            result[name] = value
        elif kind == "small" or value != theirs[name].default:  # a default said aloud is no wish
            start[name] = value
    if kind == "local" and (lost := sorted(start.keys() - {"kind", *OF_MODEL})):
        raise ConfigError(
            f"policy.{lost[0]} is a setting of the local policy that verl's has not; leave it out with backend=verl, "
            "or give verl's own names in policy.verl"
        )
    for name in ours.keys() & theirs.keys() - {"kind", "model", *HERE_ONLY}:
        default = theirs[name].default
        if default != ours[name].default:  # what the section means without saying so
            result[name] = _over(default, result.get(name))
    if kind == "small" and not policy.get("model"):
        result["start"] = start | {name: result[name] for name in OF_MODEL}
    return result


def _over(default: Any, given: Any) -> Any:
    """What is given, over a default; a section given in part keeps the default's other settings."""
    if given is None:
        return default
    if not isinstance(default, Settings) or not isinstance(given, dict):
        return given
    below = {name: getattr(default, name) for name in type(default).model_fields}
    if given.get("kind", below.get("kind")) != below.get("kind"):
        return given  # another kind has its own
    return below | given


def _of_local(name: str, value: Any) -> bool:
    """Whether a value is one of the local policy's, not one that verl's section knows under the same name."""
    return not (name == "device" and value == "cpu") and not (
        name == "merge_rows" and value in ("off", "chains")
    )
