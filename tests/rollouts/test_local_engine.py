"""Rollouts with real weights: what depends on how many episodes are open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.rollouts import Rollouts, RolloutSettings, Streams
from turnpoint.testing import toy_suite

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory):
    """Plays eight greedy episodes with a tiny untrained agent, so many of them at a time."""
    from turnpoint.policy.settings import LocalPolicySettings
    from turnpoint.policy.small.build import build_small_agent

    suite = toy_suite(max_turns=5)
    prompter = Prompter(PromptSettings(compact=True), suite.instructions)
    folder: Path = build_small_agent(
        [*suite.vocabulary_texts(), *prompter.vocabulary_texts()],
        width=32, heads=2, kv_heads=1, ffn=64, seed=0, context_length=600, folder=tmp_path_factory.mktemp("agent"),
    )  # fmt: skip
    policy = LocalPolicySettings(model=str(folder)).build(seed=0)

    def play(concurrent: int):
        settings = RolloutSettings(max_response_tokens=8, temperature=0.0, concurrent=concurrent)
        rollouts = Rollouts(suite, policy, prompter, ChatRenderer(policy.tokenizer), settings, Streams(0))

        async def go():
            episodes = await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:8]))
            await rollouts.close()
            return [turn for episode in episodes for turn in episode.turns]

        return asyncio.run(go())

    return play


def test_the_same_settings_give_the_same_bits(played) -> None:
    for one, two in zip(played(256), played(256), strict=True):
        assert (one.prompt_ids, one.response_ids, one.logprobs) == (
            two.prompt_ids,
            two.response_ids,
            two.logprobs,
        )


def test_fewer_episodes_at_a_time_change_log_probs_by_rounding_only(played) -> None:
    few, many = played(2), played(256)
    assert len(few) > 20
    for one, two in zip(few, many, strict=True):
        assert (one.prompt_ids, one.response_ids) == (two.prompt_ids, two.response_ids)
        np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-4)
