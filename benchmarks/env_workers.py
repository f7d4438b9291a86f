"""What environment workers cost the driver: episodes on Ray actors against the same episodes in this process.

    python -m benchmarks.env_workers --episodes 256 --workers 2

Needs Ray. The environment is the tests' corridor, which does next to nothing, and the agent is scripted, so that what
is left is scheduling, pickling and the calls. CPU time is that of the driving process alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import ray

from turnpoint.rollouts import RolloutSettings
from turnpoint.rollouts.ray_workers import start_workers
from turnpoint.rollouts.remote import EnvWorkers
from turnpoint.testing import ToySettings, ToySuite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


def calls(workers: EnvWorkers, suite: ToySuite, count: int) -> dict[str, float]:
    """CPU and wall milliseconds of one call of an actor, one after another."""
    handle = workers.take()
    handle.call("reset", (suite.tasks("train")[0],), 60.0)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        handle.call("step", ("go left",), 60.0)
    result = {"cpu_ms": 1e3 * (time.process_time() - cpu) / count}
    result["wall_ms"] = 1e3 * (time.perf_counter() - wall) / count
    handle.call("close", (), 60.0)
    workers.give_back(handle)
    return result


def play(
    suite: ToySuite, settings: RolloutSettings, workers: EnvWorkers | None, episodes: int
) -> dict[str, float]:
    """CPU and wall milliseconds of one turn."""
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()), rollout=settings, workers=workers)
    tasks = suite.tasks("train")

    async def go() -> int:
        games = (rollouts.play(tasks[i % len(tasks)], i // len(tasks)) for i in range(episodes))
        played = await asyncio.gather(*games)
        await rollouts.close()
        return sum(len(episode.turns) for episode in played)

    cpu, wall = time.process_time(), time.perf_counter()
    turns = asyncio.run(go())
    return {
        "turns": turns,
        "cpu_ms": 1e3 * (time.process_time() - cpu) / turns,
        "wall_ms": 1e3 * (time.perf_counter() - wall) / turns,
    }


def main() -> None:
    """Command line; JSON on standard output."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    environment = ToySettings()
    suite = environment.build()
    inline = RolloutSettings(max_response_tokens=200)
    remote = RolloutSettings(
        max_response_tokens=200, env_workers="ray", env_worker_count=options.workers, env_worker_cpus=0.25,
        env_seconds=60,
    )  # fmt: skip
    workers = start_workers(environment, suite.capabilities, remote)
    play(suite, remote, workers, options.episodes)  # warms up
    result = {
        "call": calls(workers, suite, 300),
        "workers": play(suite, remote, workers, options.episodes),
        "in this process": play(suite, inline, None, options.episodes),
        "counts": workers.counts(),
    }
    workers.close()
    ray.shutdown()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
