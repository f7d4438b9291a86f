from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from turnpoint.records import StopReason
from turnpoint.rollouts import RolloutSettings, envs
from turnpoint.testing import ToyEnv, ToySettings, ToySuite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

THREADED = RolloutSettings(max_response_tokens=200, env_seconds=60)


def rollouts_on(suite, settings: RolloutSettings = THREADED):
    return make_rollouts(suite, ScriptedPolicy(random_agent()), rollout=settings)[0]


class Stuck(ToyEnv):
    """``reset`` blocks until the test lets it go; says which threads used and closed it."""

    release: threading.Event
    inside: list[int]
    closed: list[int]

    def reset(self, task):
        self.inside.append(threading.get_ident())
        self.release.wait()
        return super().reset(task)

    def close(self):
        self.closed.append(threading.get_ident())
        super().close()


@pytest.fixture
def stuck() -> Iterator[type[Stuck]]:
    made = type("Stuck", (Stuck,), {"release": threading.Event(), "inside": [], "closed": []})
    yield made
    made.release.set()


def test_a_hung_copy_is_closed_by_its_own_thread_once_its_call_returns(stuck) -> None:
    suite = ToySuite(ToySettings(), stuck)
    rollouts = rollouts_on(suite, RolloutSettings(env_seconds=0.1))

    async def go():
        episode = await rollouts.play(suite.tasks("train")[0], 0)
        await rollouts.close()
        return episode

    episode = asyncio.run(go())
    assert episode.stop == StopReason.TIME_OUT
    assert "rollout.env_seconds (0.1)" in episode.error
    assert stuck.closed == []
    stuck.release.set()
    deadline = time.monotonic() + 20
    while not stuck.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stuck.closed == stuck.inside != [threading.get_ident()]


def test_an_episode_that_runs_out_of_time_inside_a_call_gives_its_copy_up(stuck) -> None:
    suite = ToySuite(ToySettings(), stuck)
    rollouts = rollouts_on(suite, RolloutSettings(env_seconds=30, episode_seconds=0.1))

    async def go():
        episode = await rollouts.play(suite.tasks("train")[0], 0)
        await rollouts.close()
        return episode

    episode = asyncio.run(go())
    assert (episode.stop, episode.error) == (StopReason.TIME_OUT, "the wall clock of the episode ran out")
    assert stuck.closed == []


def test_while_the_making_of_a_copy_hangs_no_other_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    release, begun = threading.Event(), list[int]()

    class Hanging(ToySuite):
        def make(self) -> ToyEnv:
            if hangs:
                begun.append(1)
                release.wait()
            return super().make()

    hangs = False
    suite = Hanging(ToySettings())
    hangs = True
    rollouts, tasks = rollouts_on(suite), suite.tasks("train")[:6]

    async def go():
        monkeypatch.setattr(envs, "START_SECONDS", 0.05)
        late = await asyncio.gather(*(rollouts.play(task, 0) for task in tasks))
        late.append(await rollouts.play(tasks[0], 1))
        monkeypatch.undo()
        tried = len(begun)
        release.set()
        while rollouts.envs._hung.making:
            await asyncio.sleep(0.001)
        played = await rollouts.play(tasks[0], 2)
        await rollouts.close()
        return late, tried, played

    late, tried, played = asyncio.run(asyncio.wait_for(go(), 60))
    assert tried == 1
    assert {episode.stop for episode in late} == {StopReason.TIME_OUT}
    said = "the environment was not made within 0.05 s"
    assert [episode.error for episode in late] == [
        said,
        *[f"{said} and still hangs; no other is made meanwhile"] * 6,
    ]
    assert played.stop is not None
    assert played.stop.has_outcome


HANGING = """
import asyncio, collections
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing import hanging_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

suite = hanging_suite(hang_seconds=1e6, fault_every=2)
settings = RolloutSettings(max_response_tokens=200, env_seconds=2)
rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()), rollout=settings)
rollouts.envs.places = asyncio.Semaphore(4)

async def play():
    return await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:16]))

stops = [str(episode.stop) for episode in asyncio.run(play())]
print(collections.Counter(stops[::2]), "time_out" in stops[1::2])
"""


def test_more_hung_calls_than_run_together_harm_nobody_and_the_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "Counter({'time_out': 8}) False\n"


def advance_clock(seconds: float) -> None:
    """Let the running loop's clock jump: what is due meanwhile comes next."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


def test_time_does_not_run_while_a_call_waits_for_its_turn() -> None:
    rollouts = rollouts_on(toy_suite())
    rollouts.envs.places = asyncio.Semaphore(1)

    async def go():
        async with rollouts.envs.lend() as env:
            async with rollouts.envs.places:
                waiting = asyncio.create_task(env.call(str, 7))
                for past_the_limit in (0, 61, 0):
                    advance_clock(past_the_limit)
                    await asyncio.sleep(0.01)
                assert not waiting.done()
            assert await waiting == "7"
        await rollouts.close()

    asyncio.run(go())


def test_an_answer_that_came_while_the_loop_was_held_up_is_in_time() -> None:
    """An engine in this process holds the loop while it works; the environment's thread goes on meanwhile."""
    rollouts = rollouts_on(toy_suite())
    answered = threading.Event()

    async def go():
        async with rollouts.envs.lend() as env:
            asked = asyncio.create_task(env.call(answered.set))
            await asyncio.sleep(0)  # now the call is under way
            assert answered.wait(20)
            time.sleep(0.05)  # the thread hands its answer in
            advance_clock(61)
            await asked
        await rollouts.close()

    asyncio.run(go())


class SlowlyMade(ToySuite):
    """The first copy for an episode takes longer than a call may."""

    def make(self):
        time.sleep(0.3 if self._copies else 0.0)
        return super().make()


def test_making_a_copy_is_no_call() -> None:
    rollouts = rollouts_on(SlowlyMade(ToySettings()), RolloutSettings(env_seconds=0.1))

    async def go():
        await asyncio.wait_for(rollouts.envs.borrow(), 20)
        await rollouts.close()

    asyncio.run(go())


class Scarce(ToySuite):
    """The second copy cannot be made."""

    def make(self):
        if self._copies == 2:
            self._copies += 1
            raise OSError("out of file handles")
        return super().make()


@pytest.mark.parametrize("settings", [RolloutSettings(max_response_tokens=200), THREADED])
def test_a_copy_that_cannot_be_made_is_the_record_of_one_episode(settings) -> None:
    suite = Scarce(ToySettings())
    rollouts = rollouts_on(suite, settings)

    async def go():
        return await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:4]))

    episodes = asyncio.run(go())
    failed = [episode for episode in episodes if episode.stop == StopReason.ENV_ERROR]
    assert [episode.error for episode in failed] == ["OSError: out of file handles"]
    assert all(episode.turns for episode in episodes if episode not in failed)


def test_sound_copies_are_used_again_and_closed_at_the_end() -> None:
    closed = []

    class Counted(ToyEnv):
        def close(self):
            closed.append(threading.get_ident())
            super().close()

    suite = ToySuite(ToySettings(), Counted)
    rollouts = rollouts_on(suite, RolloutSettings(max_response_tokens=200, env_seconds=30, concurrent=2))
    before = suite._copies

    async def go():
        await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:6]))
        await rollouts.close()

    asyncio.run(go())
    assert suite._copies - before == 2
    assert len(set(closed) - {threading.get_ident()}) == 2
