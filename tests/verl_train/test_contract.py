"""The contract with verl: every hook that is used is there, and one that drifts is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.policy.verl import hooks
from turnpoint.policy.verl.compose import compose_config
from turnpoint.policy.verl.settings import VerlPolicySettings
from turnpoint.policy.verl.translate import verl_settings
from turnpoint.testing import verl_cpu

SOURCE = Path(hooks.__file__).parent


def test_the_installed_verl_is_known(policy: Any) -> None:
    assert list(hooks.drifted()) == []
    hooks.check_hooks()


def test_a_hook_that_drifts_is_named_with_the_supported_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {
        "verl.workers.rollout.llm_server:LLMServerManager.get_client": ("client_cls", "priority"),
        "verl.workers.rollout.llm_server:LLMServerManager.no_such": (),
        "verl.no_such_module:thing": (),
        "verl.checkpoint_engine:CheckpointEngineManager.update_weights": ("global_steps", "why"),
    }
    found = list(hooks.drifted(changed))
    assert len(found) == 3  # get_client takes any keyword
    assert any("takes no why" in fault for fault in found)
    assert any("no_such is gone" in fault for fault in found)
    monkeypatch.setattr(hooks, "HOOKS", changed)
    with pytest.raises(ConfigError, match=r">=0\.9\.1,<0\.10.*takes no why.*backend=local"):
        hooks.check_hooks()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "installed_version", lambda: "0.10.0")
    with pytest.raises(ConfigError, match=r"version 0\.10\.0 is installed"):
        hooks.check_hooks()
    assert not hooks._supported("0.9.0")
    assert hooks._supported("0.9.4")


def test_whatever_the_room_imports_of_verl_is_in_the_contract() -> None:
    """Modules of verl that code here imports names from, against those of the contract."""
    told = {name.partition(":")[0] for name in hooks.HOOKS}
    own = {"verl", "verl.utils", "verl.workers.rollout.replica"}  # packages, and a type
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and re.match(r"verl(\.|$)", node.module or ""):
                assert node.module in told | own, f"{path.name} imports from {node.module}"


def test_the_translation_fits_verls_config() -> None:
    settings = VerlPolicySettings.model_validate(
        {
            "model": "m",
            "verl": {"rollout": {"gpu_memory_utilization": 0.3}, "actor.fsdp_config.param_offload": True},
        }
    )
    config = compose_config(verl_settings(settings, context=512, seed=0))
    assert config.actor_rollout_ref.rollout.gpu_memory_utilization == 0.3
    assert config.actor_rollout_ref.actor.fsdp_config.param_offload is True
    assert config.actor_rollout_ref.actor.clip_ratio_high == 0.2
    assert config.actor_rollout_ref.rollout.max_model_len == 512


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rollout.gpu_memory_utilisation": 0.3}, "gpu_memory_utilisation"),
        ({"actor.nothing.here": 1}, "actor_rollout_ref.actor.nothing"),
        ({"rollout.mode": "sync"}, "verl refuses the rollout settings"),
    ],
)
def test_own_settings_that_verl_does_not_have_are_refused(given: dict[str, Any], named: str) -> None:
    settings = VerlPolicySettings.model_validate({"model": "m", "verl": given})
    with pytest.raises(ConfigError, match=r".") as caught:
        compose_config(verl_settings(settings, context=512, seed=0))
    assert named in str(caught.value)


def test_the_test_kit_is_inert_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verl_cpu.asked_for()
    monkeypatch.setenv("VERL_PLATFORM", "cuda")
    assert not verl_cpu.asked_for()
    monkeypatch.delenv("VERL_PLATFORM")
    assert not verl_cpu.asked_for()
    from turnpoint.testing.verl_cpu.platform import CpuPlatform

    assert CpuPlatform().is_platform_available() is False
