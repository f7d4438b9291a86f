"""Speed of the household engine and its oracles in random play.

python -m benchmarks.household --games FOLDER     # released ALFWorld games; generated ones without it
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from itertools import islice

from turnpoint.envs.household.settings import HouseholdSettings
from turnpoint.envs.household.suite import HouseholdSuite


def main() -> None:
    """Measure and print JSON; times are CPU seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", default="generated")
    parser.add_argument("--split", default="valid")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    settings = HouseholdSettings(games=options.games)
    # A suite of its own for each part: none finds what another one left in the caches.
    result = engine_speed(settings.build(), options.split, options.tasks, options.steps)
    result |= env_speed(settings.build(), options.split, options.tasks, options.steps)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=1))


def engine_speed(suite: HouseholdSuite, split: str, tasks: int, steps: int) -> dict[str, float]:
    """Steps a second of the engine alone, the admissible commands of every state included."""
    env, seconds, count = suite.make(), 0.0, 0
    for number, task in enumerate(islice(suite.tasks(split), tasks)):
        rng = random.Random(number)
        env.reset(task)
        engine, state = env.snapshot().play.engine, env.snapshot().state
        began = time.process_time()
        for _ in range(steps):
            state, _, _ = engine.step(state, rng.choice(list(engine.commands(state))))
        seconds += time.process_time() - began
        count += steps
    return {"engine_steps_per_s": count / seconds}


def env_speed(suite: HouseholdSuite, split: str, tasks: int, steps: int) -> dict[str, float]:
    """Steps a second of ``Env.step``, and milliseconds of the oracles, each asked in a third of the states."""
    env, seconds, count = suite.make(), 0.0, 0
    asks: dict[str, Callable[[], object]] = {
        "distance": env.distance,
        "best_full": lambda: env.best_actions("full"),
        "best_observed": lambda: env.best_actions("observed"),
    }
    oracle: dict[str, list[float]] = {name: [] for name in asks}
    for number, task in enumerate(islice(suite.tasks(split), tasks)):
        rng = random.Random(number)
        observation = env.reset(task)
        for _ in range(steps):
            began = time.process_time()
            step = env.step(rng.choice(observation.admissible or ("look",)))
            seconds += time.process_time() - began
            count += 1
            if step.done:
                break
            observation = step.observation
            name = rng.choice(list(asks))
            began = time.process_time()
            asks[name]()
            oracle[name].append(1000 * (time.process_time() - began))
    result = {"env_steps_per_s": count / seconds}
    for name, values in oracle.items():
        result |= {f"{name}_ms_mean": sum(values) / len(values), f"{name}_ms_worst": max(values)}
    return result


if __name__ == "__main__":
    main()
