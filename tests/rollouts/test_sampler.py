from __future__ import annotations

import asyncio

import pytest

from turnpoint.policy import SampleRequest
from turnpoint.rollouts import Sampler
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy


def broken(prompt: str, seed: int) -> str:
    raise RuntimeError("out of memory")


def test_a_policy_that_breaks_ends_the_run_instead_of_leaving_it_waiting() -> None:
    rollouts, _ = make_rollouts(toy_suite(), ScriptedPolicy(broken))
    tasks = toy_suite().tasks("train")[:3]

    async def play():
        return await asyncio.gather(*(rollouts.play(task, i) for task in tasks for i in range(2)))

    with pytest.raises(RuntimeError, match="out of memory"):
        asyncio.run(asyncio.wait_for(play(), timeout=20))


def test_everybody_who_waits_hears_of_it_and_the_sampler_works_again() -> None:
    policy = ScriptedPolicy(broken)
    sampler = Sampler(policy)

    async def go():
        calls = (sampler.sample(str(i), SampleRequest((1,), i)) for i in range(3))
        failed = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=20)
        policy.script = lambda prompt, seed: "fine"
        policy._queue.clear()
        return failed, await asyncio.wait_for(sampler.sample("x", SampleRequest((1,), 0)), timeout=20)

    failed, sample = asyncio.run(go())
    assert [str(error) for error in failed] == ["out of memory"] * 3
    assert policy.tokenizer.decode(sample.token_ids, skip_special_tokens=True) == "fine"
