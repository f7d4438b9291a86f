"""Training with environment copies in workers: evaluation, steps, counts in the metrics, and the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from rich.console import Console

from turnpoint.rollouts.remote import EnvServer, EnvWorkers, WorkerDied
from turnpoint.testing.tiny_model import write_tiny_model
from turnpoint.testing.toy_env import KIND
from turnpoint.training.loop import Trainer
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import ConsoleView


class Handle:
    """A worker in this process that dies in one call."""

    calls = 0

    def __init__(self, settings: Any) -> None:
        self.server, self.dead = EnvServer(settings), False

    def call(self, method: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        Handle.calls += 1
        if Handle.calls == 30:
            self.dead = True
        if self.dead:
            raise WorkerDied("signal 9")
        return self.server.answer(method, arguments)

    def kill(self) -> None:
        self.dead = True


def train(folder: Path, model: Path, **rollout: Any) -> list[dict[str, Any]]:
    config = load_run_config(
        {
            "name": "run", "out": str(folder), "env": {"kind": KIND, "max_turns": 4},
            "policy": {"kind": "local", "model": str(model), "device": "cpu"},
            "method": {"kind": "grpo", "group": 3},
            "rollout": {"max_response_tokens": 6} | rollout,
            "train": {"steps": 2, "tasks_per_step": 2}, "eval": {"before": True, "every": 0, "tasks": 3},
        }
    )  # fmt: skip
    run = build_run(config, folder / "run")
    with ConsoleView(Console(stderr=True, quiet=True), 2) as view:
        asyncio.run(Trainer(run, view).train())
    if run.env_workers is not None:
        assert run.env_workers._all == []
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_on_workers_is_the_run_without_and_counts_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(env: Any, capabilities: Any, settings: Any) -> EnvWorkers:
        return EnvWorkers(lambda: Handle(env), capabilities, count=6, seconds=settings.env_seconds)

    monkeypatch.setattr("turnpoint.training.run.start_workers", start)
    model = write_tiny_model(tmp_path / "model")
    plain = train(tmp_path / "plain", model)
    Handle.calls = 0
    remote = train(tmp_path / "remote", model, env_workers="ray", env_seconds=60)
    assert [line["kind"] for line in remote] == [line["kind"] for line in plain]
    for one, other in zip(plain, remote, strict=True):
        for name in set(one) - {
            "seconds",
            "seconds_collect",
            "seconds_credit",
            "seconds_update",
            "update/seconds",
        }:
            assert other[name] == one[name], name
    steps = [line for line in remote if line["kind"] == "train"]
    assert sum(step["env_workers/lost"] for step in steps) == 1
    assert sum(step["env_workers/resumed"] for step in steps) == 1
    assert steps[0]["env_workers/hung"] == 0
    assert "env_workers/lost" not in plain[1]
