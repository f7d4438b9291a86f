"""A tiny model takes a training step on math problems; early stop by token works on real rollouts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("torch")

from turnpoint.testing.tiny_model import write_tiny_model
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

RECIPES = Path(__file__).resolve().parents[3] / "recipes"


@pytest.mark.parametrize("recipe", ["grpo_math", "stride_math", "pivotopd_math", "pivoarl_math"])
def test_a_training_step(tmp_path: Path, recipe: str) -> None:
    model = write_tiny_model(tmp_path / "student")
    overrides = [
        f"policy.model={model}", "method.group=2", "train.steps=1", "train.tasks_per_step=1", "eval.before=false",
        "eval.every=0", "eval.tasks=1", "eval.samples=1", "eval.attempts=1", "rollout.max_response_tokens=24",
        "loggers=[]", f"cache={tmp_path}",
    ]  # fmt: skip
    if recipe == "stride_math":
        teacher = write_tiny_model(tmp_path / "teacher", seed=1)
        overrides += [f"scoring.model={teacher}", "method.stop.lambda=-20", "method.stop.piece=4"]
    if recipe == "pivoarl_math":
        overrides.append("method.reflection_tokens=6")
    asyncio.run(
        Trainer(
            build_run(load_run_config(RECIPES / f"{recipe}.yaml", overrides), tmp_path / "run"), View()
        ).train()
    )
    (step,) = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"]
    assert step["episodes"] > 0
    assert step["rows"] > 0
