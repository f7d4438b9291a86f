"""All options beyond PivotOPD's paper at once on household games: recovery is trained, a resumed run is the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from turnpoint.cli.recipes import find_recipe
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytest.importorskip("torch")

SMALL = [
    "policy.layers=1", "policy.width=48", "policy.heads=2", "policy.kv_heads=1", "policy.ffn=96",
    "policy.warm_start.demonstrations=150", "train.tasks_per_step=2", "train.checkpoint_every=1",
    "eval.before=false", "eval.every=0", "eval.tasks=1", "loggers=[]", "env.max_turns=8", "method.group=4",
    "env.train_tasks=16", "env.valid_tasks=4", "teacher.error.actions=0.3", "teacher.error.turns=0.1",
    "method.w_prev=0.01", "method.max_recoveries=12", "method.consistency.samples=3",
    "method.verify.level=moves", "method.reliability.weigh=true", "method.recovery_ratio.ratio=first",
    "method.adaptive_turns.min_branches=4", "method.adaptive_turns.patience=1",
]  # fmt: skip


def train(steps: int, folder: Path, cache: Path, *, resume: bool = False) -> None:
    config = load_run_config(find_recipe("quickstart"), [*SMALL, f"cache={cache}", f"train.steps={steps}"])
    trainer = Trainer(build_run(config, folder), View())
    if resume:
        trainer.resume()
    asyncio.run(trainer.train())


def test_all_options_train_together_and_resume_bitwise(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    train(3, tmp_path / "whole", cache)
    train(2, tmp_path / "half", cache)
    train(3, tmp_path / "half", cache, resume=True)
    one, two = (tmp_path / name / "checkpoints" / "step_000003" for name in ("whole", "half"))
    for file in ("policy/model.safetensors", "state.json"):
        assert (one / file).read_bytes() == (two / file).read_bytes(), file
    beyond = json.loads((one / "state.json").read_text())["method"]["beyond"]
    assert set(beyond) == {"reliability", "recovery_ratio", "adaptive_turns"}
    assert beyond["recovery_ratio"]["ratio"] > 0
    steps = [r for r in read_metrics(tmp_path / "whole" / "metrics.jsonl") if r["kind"] == "train"]
    for name in ("recovery_tokens", "verify/interactions", "reliability/turn", "w_rec", "recovery_turns"):
        assert all(step.get(name, 0) > 0 for step in steps), name
    assert sum(step["pivots_skipped/low_agreement"] for step in steps) > 0
