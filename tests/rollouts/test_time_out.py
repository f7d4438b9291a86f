"""Episodes that run out of time while the policy works for them."""

from __future__ import annotations

import asyncio

import pytest

from turnpoint.policy import SampleRequest
from turnpoint.records import StopReason
from turnpoint.rollouts import RolloutSettings, Sampler, WithinTurn
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


class Slow(ScriptedPolicy):
    """Answers only when it is told to."""

    ready = False

    def advance(self):
        return super().advance() if self.ready else []


def test_calls_of_episodes_that_are_over_do_not_stay_in_the_policy() -> None:
    policy = Slow(random_agent())
    suite = toy_suite()
    rollouts, _ = make_rollouts(suite, policy, rollout=RolloutSettings(episode_seconds=0.5))

    async def go():
        episodes = await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:3]))
        with pytest.raises(RuntimeError, match="in flight"):
            policy.forget_sessions()
        policy.ready = True
        await rollouts.close()
        return episodes

    episodes = asyncio.run(go())
    assert {episode.stop for episode in episodes} == {StopReason.TIME_OUT}
    assert rollouts.sampled_tokens == 0
    policy.update([])
    make_rollouts(suite, policy)


def test_what_breaks_while_nobody_waits_is_heard_at_the_end() -> None:
    def broken(prompt: str, seed: int) -> str:
        raise RuntimeError("out of memory")

    policy = Slow(broken)

    async def go():
        sampler = Sampler(policy)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sampler.sample("x", SampleRequest((1,), 0)), 0.01)
        policy.ready = True
        await sampler.finish()

    with pytest.raises(RuntimeError, match="out of memory"):
        asyncio.run(go())


def test_a_finished_sampler_takes_no_more_calls() -> None:
    async def go():
        sampler = Sampler(ScriptedPolicy(random_agent()))
        await sampler.finish()
        await sampler.sample("x", SampleRequest((1,), 0))

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(go())


def test_tokens_of_a_turn_that_was_never_finished_are_not_counted() -> None:
    suite = toy_suite()
    policy = ScriptedPolicy(random_agent())
    rollouts, _ = make_rollouts(
        suite, policy, rollout=RolloutSettings(max_response_tokens=200, episode_seconds=0.3)
    )

    async def look(episode, turn):
        assert turn.response_ids
        await asyncio.Event().wait()

    async def go():
        return await rollouts.play(suite.tasks("train")[0], 0, within_turn=WithinTurn(2, look))

    episode = asyncio.run(go())
    assert (episode.stop, episode.turns) == (StopReason.TIME_OUT, [])
    assert rollouts.sampled_tokens == episode.generated_tokens == 0
