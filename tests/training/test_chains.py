"""Runs of methods that play chains of attempts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turnpoint.records import chains_of, read_episodes
from turnpoint.testing.harness import random_agent
from turnpoint.training.loop import Trainer
from turnpoint.training.view import View

RUN = [
    "env.rooms=2",
    "env.max_turns=8",
    "teacher=null",
    "train.tasks_per_step=2",
    "eval.every=0",
    "eval.before=false",
]


def reflecting(prompt: str, seed: int) -> str:
    if "your remark</remark>" in prompt.rsplit("[user]", 1)[-1]:
        return f"<pivot>{seed % 10}</pivot><remark>Remark {seed % 100}.</remark>"
    return random_agent(invalid=0.05)(prompt, seed)


def trainer(make_run, folder: Path, *overrides: str) -> Trainer:
    run = make_run(folder, [*RUN, "method.group=3", *overrides])
    run.policy.script = reflecting
    return Trainer(run, View())


def saved(folder: Path):
    episodes = [e for path in sorted(folder.glob("episodes/*.jsonl")) for e in read_episodes(path)]
    for episode in episodes:
        episode.seconds = 0.0
    return episodes


@pytest.mark.parametrize("kind", ["pivoarl", "metarl"])
def test_a_resumed_run_plays_the_same_chains(tmp_path, make_run, kind) -> None:
    method = f"method.kind={kind}"
    asyncio.run(trainer(make_run, tmp_path / "whole", method, "train.steps=2").train())
    asyncio.run(trainer(make_run, tmp_path / "parts", method, "train.steps=1").train())
    again = trainer(make_run, tmp_path / "parts", method, "train.steps=2")
    assert again.resume() == 1
    asyncio.run(again.train())
    whole = saved(tmp_path / "whole")
    assert saved(tmp_path / "parts") == whole
    assert any(len(chain) == 3 for chain in chains_of(whole))
    assert any(e.reflection is not None and not e.reflection.valid for e in whole) == (kind == "pivoarl")
    assert any(e.reflection is not None and e.reflection.valid for e in whole)
    assert any(e.forked_from is not None for e in whole) == (kind == "pivoarl")


def test_recomputed_log_probs_cover_reflections(tmp_path, make_run) -> None:
    def rows(folder, *overrides):
        runner = trainer(make_run, folder, "method.kind=pivoarl", "train.steps=1", *overrides)
        policy = runner.run.policy
        if overrides:
            scored = policy.logprobs
            policy.logprobs = lambda requests, which="live": [0.5 * values for values in scored(requests)]
        asyncio.run(runner.train())
        return policy.updates[0]

    plain, again = rows(tmp_path / "a"), rows(tmp_path / "b", "train.recompute_old_logprobs=true")
    reflections = [(a, b) for a, b in zip(plain, again, strict=True) if a.kind == "reflect"]
    assert reflections
    for a, b in reflections:
        assert b.old_logprobs == pytest.approx(a.old_logprobs * 0.5)
