"""A whole run whose rollouts come from the vLLM stand-in: it learns, resumes bitwise and passes its check."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnpoint.policy.small.build import build_small_agent
from turnpoint.preflight import memory
from turnpoint.preflight.check import check_config
from turnpoint.prompts import Prompter
from turnpoint.testing import fake_vllm
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import Run, build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

CONFIG: dict[str, Any] = {
    "env": {"kind": TOY, "max_turns": 3},
    "prompt": {"compact": True},
    "teacher": {"kind": "oracle"},
    "method": {"kind": "pivotopd", "group": 2, "recovery_turns": 1},
    "rollout": {"max_response_tokens": 6},
    "train": {"steps": 3, "tasks_per_step": 1, "checkpoint_every": 1},
    "eval": {"every": 0, "before": False, "tasks": 1},
    "loggers": [],
}


@pytest.fixture(autouse=True)
def _fake() -> Iterator[None]:
    with fake_vllm.installed():
        yield


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = load_run_config(CONFIG | {"policy": {"kind": "local", "model": "none"}})
    suite = config.env.build()
    texts = [*suite.vocabulary_texts(), *Prompter(config.prompt, suite.instructions).vocabulary_texts()]
    assert config.teacher is not None
    texts += config.teacher.vocabulary_texts()
    folder = tmp_path_factory.mktemp("agent")
    return build_small_agent(
        texts, width=32, heads=2, kv_heads=1, ffn=64, seed=0, context_length=600, folder=folder
    )


def config_of(agent: Path, *overrides: str) -> Any:
    policy = {
        "kind": "vllm",
        "model": str(agent),
        "device": "cpu",
        "optimizer": {"kind": "muon", "lr": 0.003},
    }
    return load_run_config(CONFIG | {"policy": policy}, list(overrides))


def train(run: Run, *, resume: bool = False) -> list[dict[str, Any]]:
    trainer = Trainer(run, View())
    if resume:
        assert trainer.resume() == 1
    asyncio.run(trainer.train())
    return [r for r in read_metrics(run.folder / "metrics.jsonl") if r["kind"] == "train"]


def test_a_run_learns_and_resumes_bitwise(agent: Path, tmp_path: Path) -> None:
    whole = train(build_run(config_of(agent), tmp_path / "whole"))
    train(build_run(config_of(agent, "train.steps=1"), tmp_path / "parts"))
    parts = train(build_run(config_of(agent), tmp_path / "parts"), resume=True)
    for a, b in zip(whole, parts, strict=True):
        assert {k: v for k, v in a.items() if "seconds" not in k} == {
            k: v for k, v in b.items() if "seconds" not in k
        }
    for record in whole:
        assert record["update/sampler_diff_max"] < 1e-5
        assert record["update/sampler_tokens"] >= record["sampled_tokens"] > 0
    states = [
        (tmp_path / name / "checkpoints/step_000003/policy/model.safetensors").read_bytes()
        for name in ("whole", "parts")
    ]
    assert states[0] == states[1] != (agent / "model.safetensors").read_bytes()


def test_the_check_before_training_passes(agent: Path) -> None:
    report = asyncio.run(check_config(config_of(agent, "env.max_turns=8"), tasks=1))
    assert [f"{f.name}: {f.detail}" for f in report.failures] == []
    verdicts = {finding.name: finding.verdict for finding in report.findings}
    assert verdicts["sampler and trainer"] == "ok"
    assert report.memory["engine"] == report.memory["weights"] > 0


@pytest.mark.parametrize(("sleeps", "engine"), [(0, 45.0), (1, 41.0), (None, 41.0)])
def test_the_engine_s_share_of_a_gpu_is_in_the_estimate(
    agent: Path, monkeypatch: pytest.MonkeyPatch, sleeps: int | None, engine: float
) -> None:
    """100 GiB, of which the engine takes 45; gradients and activations of 4 fit in while it sleeps."""
    monkeypatch.setattr(memory, "available", lambda on_gpu: 100.0)
    monkeypatch.setattr(memory, "_activations", lambda plan: 4.0 - memory._LOGITS)
    monkeypatch.setattr(memory, "parameters", lambda folder: 0)
    config = config_of(agent, f"policy.sleep_level={'null' if sleeps is None else sleeps}")
    found = memory.needs(memory.Plan(config, agent, on_gpu=True))
    assert (found["engine"], found["key-value cache"]) == (engine, 0.0)
