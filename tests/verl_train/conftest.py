"""Training through verl on a CPU: run by scripts/test-verl.sh alone, in an environment where verl is installed.

Starting verl's processes takes most of the time, so one policy on two ranks (and two rollout servers) serves all
tests; each gets it with its first weights, optimizer and counters.
"""

from __future__ import annotations

import os

os.environ["VERL_USE_EXTERNAL_PLUGINS"] = "none"  # before the first import of verl: nothing but the test kit

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # a cluster for these tests alone
os.environ.setdefault(
    "RAY_memory_monitor_refresh_ms", "0"
)  # it ends workers when others use the machine's memory

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from turnpoint.cli.recipes import find_recipe
from turnpoint.policy.verl.cluster import prepare_environment
from turnpoint.policy.verl.settings import VerlPolicySettings
from turnpoint.testing import verl_cpu
from turnpoint.testing.verl_cpu import ENGINE, OVERRIDES
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import Run, build_run
from turnpoint.training.settings import RunConfig, load_run_config
from turnpoint.training.view import View

torch.set_num_threads(1)
KIT = {"device": "cpu", "engine": ENGINE, "external_modules": [verl_cpu.__name__]}
prepare_environment(VerlPolicySettings.model_validate({"model": "none", **KIT}))  # before a test imports verl

TINY = [
    "policy.layers=1", "policy.width=64", "policy.heads=2", "policy.kv_heads=1", "policy.ffn=96",
    "policy.context_length=1024", "policy.warm_start.demonstrations=800", "policy.warm_start.play.hinted=0.3",
    "train.tasks_per_step=2", "train.checkpoint_every=1", "eval.before=false", "eval.every=0", "eval.tasks=2",
    "eval.attempts=1", "loggers=[]", "env.max_turns=6", "env.train_tasks=16", "env.valid_tasks=4",
    "rollout.max_response_tokens=16",
]  # fmt: skip
RATE = 1e-3
POLICY = [
    "policy.optimizer={kind: adamw, lr: 0.001}", "policy.loss={kl: 0.01}", "policy.mini_batch_rows=null",
    "policy.keep_reference=true",
]  # fmt: skip
"""What all tests share: one policy is for all of them."""
VERL = ["backend=verl", *OVERRIDES, "policy.gpus_per_node=2"]


def load(recipe: str, cache: Path, *overrides: str, backend: tuple[str, ...] | list[str] = VERL) -> RunConfig:
    """A recipe made small, on verl unless told otherwise."""
    return load_run_config(find_recipe(recipe), [*TINY, *POLICY, f"cache={cache}", *overrides, *backend])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.verl)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def model(cache: Path) -> Path:
    """The built-in agent after a short warm start; its words include those of reflections."""
    config = load("pivoarl_household", cache, "method.group=2")
    suite = config.env.build()
    from turnpoint.prompts import Prompter

    settings = config.policy.prepare(suite, Prompter(config.prompt, suite.instructions), cache=cache, seed=0)
    return Path(settings.model)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def first(model: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """The policy, and the checkpoint of its first state."""
    config = load("pivotopd_household", cache, f"policy.model={model}")
    policy = config.policy.build(seed=0)
    folder = tmp_path_factory.mktemp("first")
    policy.save(folder)
    yield policy, folder
    policy.close()  # type: ignore[attr-defined]


@pytest.fixture
def policy(first: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The policy in its first state; whatever builds a verl policy gets it."""
    shared, folder = first
    while shared.advance():  # what a failed test left behind
        pass
    shared.load(folder)
    monkeypatch.setattr(VerlPolicySettings, "build", lambda self, *, seed: shared)
    return shared


def train(config: RunConfig, folder: Path, *, resume: bool = False) -> Run:
    """Run the training loop to its end."""
    run = build_run(config, folder)
    trainer = Trainer(run, View())
    if resume:
        trainer.resume()
    asyncio.run(trainer.train())
    return run


def steps(folder: Path) -> list[dict[str, Any]]:
    """Metrics of the training steps of a run folder."""
    return [record for record in read_metrics(folder / "metrics.jsonl") if record["kind"] == "train"]
