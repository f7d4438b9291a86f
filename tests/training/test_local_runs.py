"""Whole runs with real weights: a tiny untrained agent on the corridor game."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from turnpoint.policy.small.build import build_small_agent
from turnpoint.prompts import Prompter
from turnpoint.records import read_episodes
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import Run, build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

CONFIG = {
    "env": {"kind": TOY, "max_turns": 8},
    "prompt": {"compact": True},
    "teacher": {"kind": "oracle"},
    "method": {"kind": "pivotopd", "group": 4, "recovery_turns": 2, "w_prev": 0.1, "w_traj": 0.1},
    "rollout": {"max_response_tokens": 8},
    "train": {"steps": 4, "tasks_per_step": 3, "checkpoint_every": 2},
    "eval": {"every": 2, "tasks": 4},
    "loggers": [],
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory) -> Path:
    config = load_run_config(CONFIG | {"policy": {"kind": "local", "model": "none"}})
    suite = config.env.build()
    prompter = Prompter(config.prompt, suite.instructions)
    texts = [*suite.vocabulary_texts(), *prompter.vocabulary_texts(), *config.teacher.vocabulary_texts()]
    folder = tmp_path_factory.mktemp("agent")
    return build_small_agent(
        texts, width=32, heads=2, kv_heads=1, ffn=64, seed=0, context_length=600, folder=folder
    )


def build(agent: Path, folder: Path, *overrides: str, optimizer: str = "adamw") -> Run:
    policy = {
        "kind": "local",
        "model": str(agent),
        "mini_batch_rows": 40,
        "loss": {"kl": 0.01},
        "optimizer": {"kind": optimizer, "lr": 0.003},
    }
    return build_run(load_run_config(CONFIG | {"policy": policy}, list(overrides)), folder)


def train(run: Run) -> Run:
    asyncio.run(Trainer(run, View()).train())
    return run


def weights(folder: Path) -> bytes:
    return (folder / "checkpoints" / "step_000004" / "policy" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resume_is_bitwise(agent: Path, tmp_path: Path, optimizer: str) -> None:
    train(build(agent, tmp_path / "whole", optimizer=optimizer))
    train(build(agent, tmp_path / "parts", "train.steps=2", optimizer=optimizer))
    again = build(agent, tmp_path / "parts", optimizer=optimizer)
    trainer = Trainer(again, View())
    assert trainer.resume() == 2
    asyncio.run(trainer.train())
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    state = tmp_path / "whole" / "checkpoints" / "step_000004"
    files = [path for path in state.rglob("*") if path.is_file()]
    assert any("training_state" in str(path) for path in files)
    for path in files:
        other = tmp_path / "parts" / path.relative_to(tmp_path / "whole")
        assert other.read_bytes() == path.read_bytes(), path.name
    for path in sorted((tmp_path / "whole").glob("*/step_*.jsonl")):
        mine, theirs = (
            read_episodes(path),
            read_episodes(tmp_path / "parts" / path.relative_to(tmp_path / "whole")),
        )
        for episode in (*mine, *theirs):
            episode.seconds = 0.0
        assert mine == theirs, path.name


def test_sampler_and_trainer_agree_and_weights_move(agent: Path, tmp_path: Path) -> None:
    run = train(build(agent, tmp_path))
    steps = [r for r in read_metrics(tmp_path / "metrics.jsonl") if r["kind"] == "train"]
    assert max(step["update/logprob_diff_max"] for step in steps) < 1e-4
    assert all(step["update/grad_norm"] > 0 for step in steps)
    assert weights(tmp_path) != (agent / "model.safetensors").read_bytes()
    assert run.policy.context_length == 600


def test_a_learning_rate_of_zero_does_not_drift(agent: Path, tmp_path: Path) -> None:
    run = train(
        build(agent, tmp_path, "policy.optimizer.lr=0", "policy.optimizer.lr_rest=0", "method.w_prev=0.5")
    )
    steps = [r for r in read_metrics(tmp_path / "metrics.jsonl") if r["kind"] == "train"]
    assert max(step["update/logprob_diff_max"] for step in steps) < 1e-5
    assert max(step["update/kl"] for step in steps) < 1e-10
    assert weights(tmp_path) == (agent / "model.safetensors").read_bytes()
    del run


def test_what_an_update_is_given_is_what_was_sampled(agent: Path, tmp_path: Path) -> None:
    run = build(agent, tmp_path, "train.steps=1", "eval.before=false")
    seen, update = [], run.policy.update

    def spy(rows):
        seen.extend(rows)
        return update(rows)

    run.policy.update = spy
    train(run)
    turns = {
        (e.id, t.index): t
        for e in read_episodes(tmp_path / "episodes" / "step_000001.jsonl")
        for t in e.turns
    }
    assert len(seen) == len(turns)
    for row in seen:
        turn = turns[row.episode, row.turn]
        assert row.response_ids == turn.response_ids
        np.testing.assert_allclose(turn.scores["advantage"], row.advantages)
