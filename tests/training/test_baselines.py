"""Every baseline through the training loop, which checks that no sampled token is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turnpoint.config import ConfigError
from turnpoint.prompts import reflection_reply
from turnpoint.records import EpisodeWriter
from turnpoint.testing import toy_suite
from turnpoint.testing.episodes import play_oracle
from turnpoint.testing.harness import random_agent
from turnpoint.training.evaluate import evaluate
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.view import View

SHORT = [
    "env.rooms=2",
    "env.max_turns=8",
    "prompt.history=1",
    "train.steps=2",
    "train.tasks_per_step=2",
    "train.checkpoint_every=1",
    "eval.every=0",
    "eval.before=false",
    "eval.tasks=2",
]
METHODS = {
    "gspo": [],
    "rlsd": ["method.privileged=gold"],
    "sdar": ["method.privileged=lesson"],
    "agentopsd": ["method.privileged=feedback"],
    "opid": [],
    "opsd": ["method.privileged=gold", "method.divergence.direction=forward"],
}


def train(run):
    asyncio.run(Trainer(run, View()).train())
    records = read_metrics(run.folder / "metrics.jsonl")
    return [record for record in records if record["kind"] == "train"]


@pytest.mark.parametrize("kind", METHODS)
def test_two_steps_conserve_tokens_and_resume_exactly(make_run, tmp_path: Path, kind: str) -> None:
    overrides = [f"method.kind={kind}", "method.group=3", *SHORT, *METHODS[kind]]
    run = make_run(tmp_path / "whole", overrides)
    records = train(run)
    assert [r["rows"] > 0 for r in records] == [True, True]
    assert not any(name.startswith("signal_empty/") for r in records for name in r)
    half = make_run(tmp_path / "half", [*overrides, "train.steps=1"])
    train(half)
    again = make_run(tmp_path / "half", overrides)
    trainer = Trainer(again, View())
    assert trainer.resume() == 1
    asyncio.run(trainer.train())
    for one, two in zip(run.policy.updates[1], again.policy.updates[1], strict=True):
        assert one.response_ids == two.response_ids
        assert one.advantages.tobytes() == two.advantages.tobytes()
        assert one.teacher_prompt_ids == two.teacher_prompt_ids


def test_pivotrl_trains_on_recorded_episodes(make_run, tmp_path: Path) -> None:
    suite, path = toy_suite(rooms=2), tmp_path / "recorded.jsonl"
    with EpisodeWriter(path) as writer:
        for task in suite.tasks("train")[:4]:
            writer.write(play_oracle(suite.make(), task))
    method = ["method.kind=pivotrl", f"method.episodes={path}", "method.reward=distance"]
    (first, second) = train(make_run(tmp_path / "run", [*method, *SHORT]))
    assert first["turns_tried"] > 0
    assert second["turns_tried"] > 0
    assert first["rows"] + second["rows"] > 0


@pytest.mark.parametrize("kind", ["react", "reflexion", "full_retry"])
def test_prompting_is_evaluated_over_attempts_and_never_trained(make_run, tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "run", [f"method.kind={kind}", *SHORT[:3], "eval.tasks=3", "eval.attempts=3"])
    run.policy.script = lambda prompt, seed: (
        reflection_reply(None, f"remark {seed}")
        if "leave a remark" in prompt
        else random_agent()(prompt, seed)
    )
    assert run.config.train.steps == 4
    result = asyncio.run(evaluate(run, run.config.eval))
    summary = result.summary.as_dict()
    assert summary["success_at"].keys() == {"1", "2", "3"}
    assert 3 <= len(result.episodes) <= 9
    with pytest.raises(ConfigError, match=r"train\.steps=0"):
        asyncio.run(Trainer(run, View()).train())
