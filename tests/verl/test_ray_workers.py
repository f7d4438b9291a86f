"""Environment workers as real Ray actors: killed, hung, too many, and those of a whole training step."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Iterator

import pytest
import ray

from turnpoint.config import ConfigError
from turnpoint.envs import env_registry
from turnpoint.envs.household.settings import HouseholdSettings
from turnpoint.records import StopReason
from turnpoint.rollouts import RolloutSettings
from turnpoint.rollouts.ray_workers import RayHandle, start_workers
from turnpoint.rollouts.remote import EnvWorkers, WorkerDied
from turnpoint.testing import ToySettings
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    started = not ray.is_initialized()
    if started:
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    if started:
        ray.shutdown()


def rollout(**changes) -> RolloutSettings:
    given = {"env_workers": "ray", "env_worker_count": 2, "env_worker_cpus": 0.25, "env_seconds": 60}
    return RolloutSettings(**given | {"max_response_tokens": 200} | changes)


@pytest.fixture(scope="module")
def workers() -> Iterator[EnvWorkers]:
    settings = ToySettings()
    made = start_workers(settings, settings.build().capabilities, rollout())
    yield made
    made.close()


def pid(handle: RayHandle) -> int:
    return ray.get(handle.actor.__ray_call__.remote(lambda self: os.getpid()))


def play(settings, workers: EnvWorkers | None, episodes: int = 6, script=None):
    suite = settings.build()
    plain = RolloutSettings(max_response_tokens=200)
    rollouts, _ = make_rollouts(
        suite,
        ScriptedPolicy(script or random_agent()),
        rollout=rollout() if workers else plain,
        workers=workers,
    )

    async def go():
        played = await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:episodes]))
        await rollouts.close()
        return played

    return asyncio.run(go())


def what_happened(episodes):
    return [(e.stop, e.success, [t.executed for t in e.turns], e.final_observation) for e in episodes]


def test_episodes_in_actors_are_those_of_this_process(workers: EnvWorkers) -> None:
    settings = ToySettings()
    assert what_happened(play(settings, workers)) == what_happened(play(settings, None))
    assert workers.counts()["env_workers/started"] == 2


def test_a_killed_actor_is_replaced_and_its_episode_goes_on(workers: EnvWorkers) -> None:
    settings, wanted = ToySettings(), what_happened(play(ToySettings(), None))
    victims = [pid(handle) for handle in workers._all]
    before, calls, agent = workers.counts(), itertools.count(), random_agent()

    def script(prompt: str, seed: int) -> str:
        if next(calls) == 12:
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
        return agent(prompt, seed)

    assert what_happened(play(settings, workers, script=script)) == wanted
    counted = {name: value - before[name] for name, value in workers.counts().items()}
    assert counted["env_workers/lost"] == counted["env_workers/started"] == 2
    assert counted["env_workers/resumed"] >= 1
    assert counted["env_workers/hung"] == 0


def test_a_dead_actor_and_a_slow_one_are_typed() -> None:
    handle = RayHandle(ToySettings(fault="hang", fault_turn=0, hang_seconds=30.0), 0.25)
    assert handle.call("ready", (), 60.0) == (True, True)
    handle.call("reset", (ToySettings().build().tasks("train")[0],), 60.0)
    with pytest.raises(TimeoutError):
        handle.call("step", ("go left",), 0.3)
    handle.kill()
    with pytest.raises(WorkerDied):
        handle.call("ready", (), 60.0)


def test_a_call_that_hangs_ends_its_episode_and_its_actor() -> None:
    settings = ToySettings(fault="hang", fault_every=2, hang_seconds=600.0)
    workers = start_workers(
        settings, settings.build().capabilities, rollout(env_seconds=2.0, env_worker_count=2)
    )
    suite = settings.build()
    rollouts, _ = make_rollouts(
        suite, ScriptedPolicy(random_agent()), rollout=rollout(env_seconds=2.0), workers=workers
    )

    async def go():
        played = await asyncio.gather(*(rollouts.play(t, 0) for t in suite.tasks("train")[:2]))
        await rollouts.close()
        return played

    stops = [episode.stop for episode in asyncio.run(go())]
    assert stops[0] == StopReason.TIME_OUT
    assert stops[1] != StopReason.TIME_OUT
    deadline = time.monotonic() + 20
    while not workers.counts()["env_workers/hung"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers.counts()["env_workers/hung"] == 1
    workers.close()


def test_more_workers_than_the_cluster_holds_are_refused() -> None:
    settings = ToySettings()
    with pytest.raises(ConfigError, match=r"Ray has .* CPUs free"):
        start_workers(settings, settings.build().capabilities, rollout(env_worker_count=500))


def test_an_environment_that_cannot_be_built_in_a_worker_is_refused() -> None:
    settings = HouseholdSettings(games="/no/such/folder")
    capabilities = ToySettings().build().capabilities
    with pytest.raises(ConfigError, match="environment workers did not start"):
        start_workers(settings, capabilities, rollout(), seconds=60)


@pytest.mark.parametrize("kind", ["household", "webshop"])
def test_states_of_real_environments_come_back_in_another_actor(kind: str) -> None:
    """Native snapshots where they can be sent, replay where not."""
    settings = env_registry.parse({"kind": kind})
    suite = settings.build()
    workers = start_workers(settings, suite.capabilities, rollout())
    task = suite.tasks("train")[0]
    rollouts, _ = make_rollouts(
        suite,
        ScriptedPolicy(lambda prompt, seed: "<action>look</action>"),
        rollout=rollout(max_turns=3),
        workers=workers,
    )

    async def go():
        episode = await rollouts.play(task, 0)
        async with rollouts.envs.lend() as one, rollouts.envs.lend() as two:
            seen = [await env.restore(episode, 2) for env in (one, two)]
        await rollouts.close()
        return episode, seen

    episode, seen = asyncio.run(go())
    assert episode.stop == StopReason.MAX_TURNS, episode.error
    assert seen == [episode.turns[2].observation] * 2
    workers.close()
