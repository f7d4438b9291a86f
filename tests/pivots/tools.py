"""Episodes of the corridor game for tests of analyses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from turnpoint.pivots.oracle import measure_distances
from turnpoint.records import Episode, Observation, StopReason, Task, Turn
from turnpoint.rollouts import Rollouts, Scorer
from turnpoint.testing import ToySuite, play_actions, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


def agent(suite: ToySuite, **options: bool) -> tuple[Rollouts, Scorer]:
    """A random agent that measures distances."""
    return make_rollouts(suite, ScriptedPolicy(random_agent(**options)), measure=True)


def played(count: int = 30, **changes: object) -> list[Episode]:
    """Episodes of the random agent, distances known."""
    suite = toy_suite(max_turns=12, **changes)
    rollouts, _ = agent(suite)

    async def go() -> list[Episode]:
        tasks = suite.tasks("train")[:count]
        return list(await asyncio.gather(*(rollouts.play(task, 0) for task in tasks)))

    return asyncio.run(go())


def lost_key() -> Episode:
    """A failed episode whose fourth turn (3) loses the key for good."""
    suite = toy_suite(rooms=2)
    task = Task("t", suite.settings.kind, "Open the chest.", "carry", data={"chest": 1, "key": 0, "start": 0})
    env = suite.make()
    actions = ["switch on lamp", "take key", "go right", "throw key away", "wait", "wait"]
    episode = play_actions(env, task, actions, snapshots=False, episode_id="lost")
    measure_distances(suite.make(), episode)
    return episode


def path(distances: Sequence[int | None], name: str = "e", success: bool = False) -> Episode:
    """An episode of turns without content, with these oracle distances (the last one is the final one)."""
    turns = [
        Turn(i, Observation(f"o{i}"), action="a", executed="a", distance=d)
        for i, d in enumerate(distances[:-1])
    ]
    stop = StopReason.SUCCESS if success else StopReason.MAX_TURNS
    return Episode(
        name, Task(name, "toy", type="kind"), turns, stop, success,
        final_observation=Observation("end"), final_distance=distances[-1], distances_known=True,
    )  # fmt: skip
