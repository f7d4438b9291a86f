"""Recorded episodes without a model: given actions, or the oracle's."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.envs.protocol import Env, Knowledge
from turnpoint.records import Episode, StopReason, Task, Turn


def play_actions(
    env: Env, task: Task, actions: Iterable[str], *, snapshots: bool = True, episode_id: str = ""
) -> Episode:
    """Play ``actions`` (until the episode is done) and record every turn.

    Snapshots are kept where the environment has them and ``snapshots`` is true.
    """
    keep = snapshots and env.capabilities.snapshots
    episode = Episode(
        id=episode_id or f"{task.id}/played", task=task, stop=StopReason.MAX_TURNS, success=False
    )
    observation = env.reset(task)
    for index, action in enumerate(actions):
        turn = Turn(index=index, observation=observation, response=action, action=action, executed=action)
        turn.snapshot = env.snapshot() if keep else None
        step = env.step(action)
        turn.effective, turn.reward, turn.done = step.effective, step.reward, step.done
        episode.turns.append(turn)
        observation = step.observation
        if step.done:
            episode.success = bool(step.success)
            episode.stop = StopReason.SUCCESS if step.success else StopReason.FAILURE
            break
    episode.final_observation = observation
    episode.final_snapshot = env.snapshot() if keep else None
    return episode


def play_oracle(env: Env, task: Task, *, knowledge: Knowledge = "full", max_turns: int = 50) -> Episode:
    """Follow the oracle's first best action until the episode is done or it knows none."""

    def actions() -> Iterable[str]:
        for _ in range(max_turns):
            best = env.best_actions(knowledge)
            if not best:
                return
            yield best[0]

    return play_actions(env, task, actions(), episode_id=f"{task.id}/oracle")
