"""Environment workers as real Ray actors: killed, hung, too many, and those of a whole training step."""

from __future__ import annotations

import asyncio
import itertools
import json
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
from turnpoint.testing.toy_env import KIND


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    started = not ray.is_initialized()
    for last in (False, False, True):  # on a machine with other work Ray's own processes may be too slow
        try:
            if started:
                ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
            break
        except Exception:
            ray.shutdown()
            if last:
                raise
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
    settings = ToySettings(fault="hang", fault_every=2, hang_seconds=3600.0)
    limits = rollout(env_seconds=10.0)  # ordinary calls of the other episode take less, on a busy machine too
    workers = start_workers(settings, settings.build().capabilities, limits)
    suite = settings.build()
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()), rollout=limits, workers=workers)

    async def go():
        played = await asyncio.gather(*(rollouts.play(t, 0) for t in suite.tasks("train")[:2]))
        await rollouts.close()
        return played

    stops = [episode.stop for episode in asyncio.run(go())]
    assert stops[0] == StopReason.TIME_OUT
    assert stops[1] != StopReason.TIME_OUT
    deadline = time.monotonic() + 60
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


def test_a_training_step_with_a_killed_worker_is_complete_and_counted(tmp_path) -> None:
    """``turnpoint train`` end to end: the step is done, nothing collected is lost, and the death is in the metrics."""
    from rich.console import Console

    from turnpoint.testing.tiny_model import write_tiny_model
    from turnpoint.training.loop import Trainer
    from turnpoint.training.run import build_run
    from turnpoint.training.settings import load_run_config
    from turnpoint.training.view import ConsoleView

    config = load_run_config(
        {
            "name": "run", "out": str(tmp_path), "env": {"kind": KIND, "max_turns": 4},
            "policy": {"kind": "local", "model": str(write_tiny_model(tmp_path / "model")), "device": "cpu"},
            "method": {"kind": "grpo", "group": 3},
            "rollout": rollout(max_response_tokens=6).model_dump() | {"temperature": None},
            "train": {"steps": 1, "tasks_per_step": 2}, "eval": {"before": False, "every": 0, "tasks": 1},
        }
    )  # fmt: skip
    run = build_run(config, tmp_path / "run")
    assert run.env_workers is not None
    os.kill(pid(run.env_workers._all[0]), signal.SIGKILL)
    with ConsoleView(Console(stderr=True, quiet=True), 1) as view:
        asyncio.run(Trainer(run, view).train())
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (step,) = [line for line in lines if line["kind"] == "train"]
    assert step["episodes"] == 6
    assert step["stops"] == {"max_turns": 6}
    assert step["env_workers/lost"] == 1
    assert step["env_workers/hung"] == 0
    assert run.env_workers._all == []
