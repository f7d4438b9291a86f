"""Supervised training: batches, schedule, held-out loss, and a tiny agent that learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import Floats, ScoreRequest, Which
from turnpoint.policy.settings import LocalPolicySettings, OptimizerSettings
from turnpoint.policy.small import build_small_agent, closed_vocabulary, make_tokenizer
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import Episode, EpisodeReader, EpisodeWriter
from turnpoint.testing import toy_suite
from turnpoint.training.demonstrations import make_demonstrations
from turnpoint.training.sequences import Example
from turnpoint.training.sft import SftProgress, SftSettings, batches, response_loss, run_sft

pytest.importorskip("transformers")

SUITE = toy_suite(train_tasks=16)
PROMPTER = Prompter(PromptSettings(compact=True, show_admissible=False))
TEXTS = [*SUITE.vocabulary_texts(), *PROMPTER.vocabulary_texts()]
RENDERER = ChatRenderer(make_tokenizer(closed_vocabulary(TEXTS, 200), 512))


def episodes(limit: int = 40) -> list[Episode]:
    return list(make_demonstrations(SUITE, PROMPTER, SUITE.tasks("train"), limit=limit))


class Recorder:
    """A policy that notes what it is trained on."""

    def __init__(self, context_length: int = 512) -> None:
        self.context_length = context_length
        self.seen: list[Sequence[Example]] = []
        self.scales: list[float] = []

    def supervised_update(self, sequences: Sequence[Example], *, lr_scale: float = 1.0) -> dict[str, float]:
        self.seen.append(sequences)
        self.scales.append(lr_scale)
        return {"loss": float(len(self.seen))}

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        return [-np.asarray(request.response_ids, dtype=np.float64) for request in requests]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=80), st.integers(1, 120), st.integers(0, 9))
def test_batches_hold_every_example_once_within_the_budget(
    lengths: list[int], tokens: int, seed: int
) -> None:
    examples = [(np.zeros(n, dtype=np.int64), np.ones(n)) for n in lengths]
    groups = list(batches(examples, tokens, np.random.default_rng(seed)))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(len(group) == 1 or sum(lengths[i] for i in group) <= tokens for group in groups)


def test_epochs_see_everything_in_another_order_and_the_rate_falls() -> None:
    policy, steps = Recorder(), list[SftProgress]()
    settings = SftSettings(epochs=2, batch_tokens=600, held_out=0.0)
    report = run_sft(policy, episodes(), RENDERER, settings, prompter=PROMPTER, progress=steps.append)
    seen = [ids.tobytes() for batch in policy.seen for ids, _ in batch]
    half = len(seen) // 2
    assert sorted(seen[:half]) == sorted(seen[half:])
    assert seen[:half] != seen[half:]
    assert policy.scales[0] == 1.0
    assert all(a > b > 0 for a, b in zip(policy.scales, policy.scales[1:], strict=False))
    assert [p.step for p in steps] == list(range(1, report.steps + 1))
    assert {p.steps for p in steps} == {report.steps}
    assert report.losses == [p.loss for p in steps]
    assert report.tokens == sum(len(ids) for batch in policy.seen for ids, _ in batch)


def test_a_constant_rate_on_request() -> None:
    policy = Recorder()
    run_sft(policy, episodes(), RENDERER, SftSettings(decay=False, batch_tokens=600), prompter=PROMPTER)
    assert set(policy.scales) == {1.0}


def test_held_out_episodes_are_not_trained() -> None:
    whole, part = Recorder(), Recorder()
    played = episodes()
    everything = run_sft(whole, played, RENDERER, SftSettings(held_out=0.0), prompter=PROMPTER)
    some = run_sft(part, played, RENDERER, SftSettings(held_out=0.3), prompter=PROMPTER)
    assert everything.held_out_before is None
    assert some.held_out_before == some.held_out_after > 0
    assert 0 < some.tokens < everything.tokens
    assert some.episodes == everything.episodes == len(played)


def test_response_loss_is_the_mean_over_tokens_of_full_weight() -> None:
    examples = [
        (np.array([1, 2, 3, 4]), np.array([1.0, 0.1, 1.0, 0.0])),
        (np.array([5, 6]), np.array([0.0, 1.0])),
        (np.array([7, 8]), np.array([1.0, 0.1])),
    ]
    assert response_loss(Recorder(), examples) == pytest.approx((3 + 6) / 2)
    assert response_loss(Recorder(), examples[2:]) is None


def test_sequences_longer_than_the_context_are_counted_not_cut() -> None:
    policy = Recorder(context_length=120)
    report = run_sft(policy, episodes(), RENDERER, SftSettings(held_out=0.0), prompter=PROMPTER)
    assert report.counts["too_long"] > 0
    assert max(len(ids) for batch in policy.seen for ids, _ in batch) <= 120


def test_nothing_to_train_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no episodes"):
        run_sft(Recorder(), [], RENDERER)
    with pytest.raises(ConfigError, match="too_long"):
        run_sft(Recorder(context_length=3), episodes(5), RENDERER, prompter=PROMPTER)


def test_an_episode_file_trains_like_the_episodes(tmp_path: Path) -> None:
    played = episodes(10)
    with EpisodeWriter(tmp_path / "e.jsonl") as writer:
        for episode in played:
            writer.write(episode)
    direct, read = Recorder(), Recorder()
    run_sft(direct, played, RENDERER, prompter=PROMPTER)
    run_sft(read, EpisodeReader(tmp_path / "e.jsonl"), RENDERER, prompter=PROMPTER)
    for mine, theirs in zip(direct.seen, read.seen, strict=True):
        assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(mine, theirs, strict=True))


def test_a_tiny_agent_learns(tmp_path: Path) -> None:
    folder = build_small_agent(
        TEXTS,
        layers=1,
        width=32,
        heads=2,
        kv_heads=1,
        ffn=64,
        seed=0,
        context_length=512,
        folder=tmp_path / "m",
    )
    settings = LocalPolicySettings(
        model=str(folder), optimizer=OptimizerSettings(kind="muon", lr=0.02, lr_rest=0.01)
    )
    policy = settings.build(seed=0)
    renderer = ChatRenderer(policy.tokenizer)
    report = run_sft(
        policy, episodes(120), renderer, SftSettings(batch_tokens=1024, held_out=0.1), prompter=PROMPTER
    )
    assert report.held_out_before > 3
    assert report.held_out_after < 0.5 * report.held_out_before
