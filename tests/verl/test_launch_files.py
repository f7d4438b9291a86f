"""The launch files against verl's own config: every name exists there and every value is one it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnpoint.policy.verl.compose import compose_config
from turnpoint.policy.verl.translate import verl_settings
from turnpoint.training.settings import load_run_config

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


@pytest.mark.parametrize("path", sorted(LAUNCH.glob("*.yaml")), ids=lambda path: path.stem)
def test_verl_takes_the_settings_of_a_launch_file(path: Path) -> None:
    policy: Any = load_run_config(path, ["policy.model=models/student"]).policy
    config = compose_config(verl_settings(policy, context=policy.context_length, seed=0))
    assert config.trainer.nnodes == policy.nodes
    assert config.trainer.n_gpus_per_node == 8
    assert config.actor_rollout_ref.rollout.name == "vllm"
    assert config.actor_rollout_ref.rollout.gpu_memory_utilization in (0.5, 0.6)
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == policy.token_budget
