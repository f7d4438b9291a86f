from __future__ import annotations

import asyncio

import pytest

from turnpoint.policy import Sample, SampleRequest
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


class Servers:
    """Calls run elsewhere and end when the test says so; to wait for one here would be for ever."""

    def __init__(self) -> None:
        self.open: dict[int, SampleRequest] = {}
        self.ended: set[int] = set()

    def submit(self, request: SampleRequest) -> int:
        self.open[request.seed] = request
        return request.seed

    def finished(self) -> bool:
        return not self.open or bool(self.ended & set(self.open))

    def advance(self) -> list[tuple[int, Sample]]:
        assert self.finished(), "advance() would wait"
        done = sorted(self.ended & set(self.open))
        for ticket in done:
            del self.open[ticket]
        return [(ticket, Sample((ticket,), (0.0,), truncated=False)) for ticket in done]


def test_without_lockstep_a_call_elsewhere_holds_up_only_who_waits_for_it() -> None:
    policy, order = Servers(), list[str]()
    sampler = Sampler(policy, lockstep=False)

    async def long():
        await sampler.sample("a", SampleRequest((1,), 1))
        order.append("long")

    async def short():
        policy.ended.add(2)
        await sampler.sample("b", SampleRequest((1,), 2))
        order.append("short")
        with sampler.waiting():
            await asyncio.sleep(0.05)
        order.append("environment")
        policy.ended.add(3)
        await sampler.sample("b", SampleRequest((1,), 3))
        order.append("short again")
        policy.ended.add(1)

    async def go():
        await asyncio.wait_for(asyncio.gather(long(), short()), timeout=20)
        await sampler.finish()

    asyncio.run(go())
    assert order == ["short", "environment", "short again", "long"]


def test_calls_elsewhere_that_nobody_waits_for_any_more_are_run_to_their_end() -> None:
    policy = Servers()
    sampler = Sampler(policy, lockstep=False)

    async def go():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sampler.sample("a", SampleRequest((1,), 1)), timeout=0.05)
        asyncio.get_running_loop().call_later(0.02, policy.ended.add, 1)
        await asyncio.wait_for(sampler.finish(), timeout=20)

    asyncio.run(go())
    assert not policy.open
