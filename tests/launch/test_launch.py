"""Launch files parse, validate, and fit the memory of the machines they name, by the cost model."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from turnpoint.planning import GPUS, KNOWN, Cluster, Efficiency, workload_of
from turnpoint.planning.memory import memory_need
from turnpoint.policy.verl.settings import VerlPolicySettings
from turnpoint.policy.verl.translate import verl_settings
from turnpoint.training.settings import RunConfig, load_run_config

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
STUDENTS = {"1.7b": "Qwen3-1.7B", "8b": "Qwen3-8B", "4b": "Qwen3-4B"}
RECIPES = sorted(LAUNCH.glob("*.yaml"))
SCRIPTS = sorted(LAUNCH.glob("*.sh"))


def dry(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(LAUNCH / script), *arguments],
        env=os.environ | {"DRY_RUN": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=30,
    )


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix("+ ")) for line in text.splitlines() if line.startswith("+ ")]


def trained(done: subprocess.CompletedProcess[str]) -> RunConfig:
    (train,) = [words for words in commands(done.stdout) if words[:2] == ["turnpoint", "train"]]
    return load_run_config(LAUNCH.parent / train[2], train[3:])


def test_there_is_something_to_launch() -> None:
    assert len(RECIPES) >= 4
    assert len(SCRIPTS) == 2


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_launch_recipe_is_one_that_verl_can_take(path: Path) -> None:
    config = load_run_config(path, ["policy.model=models/student"])
    policy = config.policy
    assert isinstance(policy, VerlPolicySettings)
    assert "Not run" in (path.read_text() + (LAUNCH / "pivotopd_alfworld_1.7b_8gpu.yaml").read_text())
    assert policy.gpus == (16 if "pivotopd" in path.stem and path.stem.endswith("2x8gpu") else 8)
    table = verl_settings(policy, context=policy.context_length or 0, seed=0)
    assert table["trainer.n_gpus_per_node"] == 8
    assert table["actor_rollout_ref.rollout.gpu_memory_utilization"] in (0.5, 0.6)
    longest = (config.prompt.max_prompt_tokens or 0) + config.rollout.max_response_tokens
    assert longest <= (policy.context_length or 0) <= policy.token_budget
    assert config.rollout.env_workers == "ray"
    assert config.rollout.env_seconds is not None
    assert config.rollout.env_worker_count == config.rollout.concurrent


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_it_fits_the_memory_of_its_machines(path: Path) -> None:
    config = load_run_config(path)
    policy: Any = config.policy
    size = next(size for size in STUDENTS if f"_{size}_" in path.stem)
    share = Efficiency(
        micro_batch_tokens=policy.token_budget,
        checkpointing=policy.gradient_checkpointing,
        server_memory=policy.verl["rollout.gpu_memory_utilization"],
    )
    cluster = Cluster(GPUS["h100"], policy.gpus, share, tensor_parallel=policy.tensor_parallel)
    need = memory_need(KNOWN[STUDENTS[size]], cluster, workload_of(config))
    assert need.fits, need
    assert need.sampling <= share.server_memory * cluster.gpu.memory


def test_the_teacher_pool_of_stride_holds_its_model() -> None:
    config = load_run_config(LAUNCH / "stride_tau2_4b_2x8gpu.yaml")
    pool: Any = config.scoring["default"]
    teacher = KNOWN["Qwen3-30B-A3B"]
    assert (pool.kind, pool.nodes * pool.gpus_per_node) == ("verl", 8)
    assert 2 * teacher.parameters < 0.8 * pool.tensor_parallel * GPUS["h100"].memory
    assert (config.train.tasks_per_step, config.policy.optimizer.lr) == (24, 1e-5)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_say_that_they_were_not_run(script: Path) -> None:
    assert subprocess.run(["sh", "-n", str(script)], capture_output=True).returncode == 0
    assert "Not run by the project" in script.read_text()
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("size", ["1.7b", "8b"])
def test_one_node(size: str) -> None:
    done = dry("verl_8gpu.sh", size, "models/mine", "train.steps=3")
    assert done.returncode == 0, done.stderr
    config = trained(done)
    assert (config.train.steps, config.policy.model) == (3, "models/mine")
    assert [words[1] for words in commands(done.stdout)] == ["gpu-smoke", "plan", "train"]


@pytest.mark.parametrize(("what", "nodes"), [("pivotopd_8b", 2), ("stride_4b", 1)])
def test_two_nodes(what: str, nodes: int) -> None:
    done = dry("verl_2x8gpu.sh", "0", what, "models/mine", HEAD="10.0.0.1")
    assert done.returncode == 0, done.stderr
    config = trained(done)
    assert config.policy.nodes == nodes
    first, *_, last = commands(done.stdout)
    assert first[:3] == ["ray", "start", "--head"]
    assert last == ["ray", "stop"]
    second = commands(dry("verl_2x8gpu.sh", "1", what, "models/mine", HEAD="10.0.0.1").stdout)
    assert second == [["exec", "ray", "start", "--address", "10.0.0.1:6379", "--num-gpus", "8", "--block"]]


def test_wrong_use_is_said() -> None:
    assert dry("verl_8gpu.sh").returncode != 0
    done = dry("verl_8gpu.sh", "3b", "models/mine")
    assert done.returncode == 2
    assert "use 1.7b or 8b" in done.stderr
    assert "usage: HEAD=address" in dry("verl_2x8gpu.sh", "0", "stride_4b", "m", HEAD="").stderr
