"""The recipe that trains on an adapted environment, made small; and a random agent on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytestmark = pytest.mark.adapters
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "grpo_gymnasium.yaml"
TINY = [
    "policy.layers=1", "policy.width=32", "policy.heads=2", "policy.kv_heads=1", "policy.ffn=48",
    "train.tasks_per_step=2", "method.group=4", "eval.before=false", "eval.every=0", "eval.tasks=2", "loggers=[]",
    "env.max_turns=4", "env.vocabulary_walks=30",
]  # fmt: skip


def test_the_recipe_trains_and_its_report_names_the_library(tmp_path: Path) -> None:
    config = load_run_config(RECIPE, [*TINY, f"cache={tmp_path / 'cache'}", "train.steps=2"])
    run = build_run(config, tmp_path / "run")
    assert run.suite.header()["versions"]["gymnasium"] == "1.4.0"
    asyncio.run(Trainer(run, View()).train())
    steps = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert len(steps) == 2
    assert sum(step["rows"] for step in steps) > 0
    assert steps[0]["env/lost_processes_hung"] == 0


def test_a_random_agent_plays_without_a_model() -> None:
    command = ["eval", "gymnasium", "env.id=Blackjack-v1", "eval.tasks=20", "--agent", "random", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert '"success"' in done.output
