from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from turnpoint.records import chains_of
from turnpoint.testing.harness import random_agent
from turnpoint.training.evaluate import evaluate
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.outcome import summary_lines
from turnpoint.training.view import View

SMALL = ["env.rooms=2", "env.max_turns=14", "teacher=null", "eval.tasks=6", "eval.samples=2"]
FEW = ["eval.tasks=2", "eval.samples=1", "train.tasks_per_step=2"]
METHODS = ["grpo", "gigpo", "pivoarl", "metarl"]


def reflecting(prompt: str, seed: int) -> str:
    if "your remark</remark>" in prompt.rsplit("[user]", 1)[-1]:
        return f"<pivot>{seed % 3}</pivot><remark>Remark {seed % 100}.</remark>"
    return random_agent()(prompt, seed)


def method(kind: str) -> list[str]:
    return [*SMALL, f"method.kind={kind}", "method.group=3"]


def run_with(make_run, folder: Path, overrides: list[str]):
    run = make_run(folder, overrides)
    run.policy.script = reflecting
    return run


def essence(episodes):
    return [(e.id, [t.response_ids for t in e.turns], e.stop) for e in episodes]


@pytest.mark.parametrize("kind", METHODS)
def test_success_within_k_attempts(tmp_path, make_run, kind) -> None:
    run = run_with(make_run, tmp_path, [*method(kind), "eval.attempts=3"])
    result = asyncio.run(evaluate(run, run.config.eval))
    chains = chains_of(result.episodes)
    assert len(chains) == 12
    assert [e for chain in chains for e in chain] == result.episodes
    summary = json.loads(json.dumps(result.summary.as_dict()))
    for k in (1, 2, 3):
        solved = [any(e.success for e in chain[:k]) for chain in chains]
        assert summary["success_at"][str(k)]["mean"] == pytest.approx(sum(solved) / 12)
    assert summary["success_at"]["1"] == summary["success"]
    assert summary["success_at"]["3"]["mean"] > summary["success"]["mean"]
    independent = kind in ("grpo", "gigpo")
    assert any(len(chain) < 3 for chain in chains) != independent
    assert any(e.attempt.remarks for e in result.episodes) != independent
    assert (summary["retry_ratio"]["mean"] < 1) == (kind == "pivoarl")
    assert any(line.startswith("success within 3 attempts: ") for line in summary_lines(summary))


@pytest.mark.parametrize("kind", METHODS)
def test_first_attempts_are_paired(tmp_path, make_run, kind) -> None:
    once = run_with(make_run, tmp_path, method("grpo"))
    single = asyncio.run(evaluate(once, once.config.eval))
    run = run_with(make_run, tmp_path, [*method(kind), "eval.attempts=2"])
    several = asyncio.run(evaluate(run, run.config.eval))
    assert essence(chain[0] for chain in chains_of(several.episodes)) == essence(single.episodes)
    assert several.summary.success == single.summary.success
    assert "success_at" not in single.summary.as_dict()


@pytest.mark.parametrize("kind", METHODS)
def test_evaluation_leaves_no_trace_in_training(tmp_path, make_run, kind) -> None:
    def trained(folder, *overrides):
        run = run_with(make_run, folder, [*method(kind), "train.steps=2", "eval.every=1", *FEW, *overrides])
        asyncio.run(Trainer(run, View()).train())
        records = read_metrics(folder / "metrics.jsonl")
        return [
            {k: v for k, v in r.items() if "seconds" not in k} for r in records if r["kind"] == "train"
        ], records

    one, _ = trained(tmp_path / "a")
    three, records = trained(tmp_path / "b", "eval.attempts=3")
    assert one == three
    assert all("success_at" in r for r in records if r["kind"] == "eval")
