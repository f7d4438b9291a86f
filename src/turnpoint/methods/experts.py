"""Expert turns that a student's episode can begin with: the environment's oracle, or recorded demonstrations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from turnpoint.config import ConfigError
from turnpoint.envs import EnvError, Knowledge
from turnpoint.records import (
    Episode,
    EpisodeKind,
    Observation,
    RecordError,
    StopReason,
    Task,
    Turn,
    read_episodes,
)
from turnpoint.rollouts import EnvCopy, Rollouts


async def play_expert(task: Task, rollouts: Rollouts, knowledge: Knowledge) -> Episode | None:
    """The oracle's episode of a task, with replies in the prompt's wording; None if it does not solve the task.

    Its turns have no tokens: they can only be context.
    """
    try:
        async with rollouts.envs.lend() as env:
            episode = await _play(task, env, rollouts, knowledge)
    except (EnvError, TimeoutError):
        return None
    return episode if episode.success else None


async def _play(task: Task, env: EnvCopy, rollouts: Rollouts, knowledge: Knowledge) -> Episode:
    episode = Episode(id=f"expert/{task.id}", task=task, kind=EpisodeKind.DEMONSTRATION, success=False)
    observation = await env.reset(task)
    while len(episode.turns) < rollouts.max_turns:
        best = await env.call(env.env.best_actions, knowledge)
        if not best:
            break
        turn = _expert_turn(len(episode.turns), observation, best[0], rollouts)
        step = await env.execute(turn)
        episode.turns.append(turn)
        observation = step.observation
        if step.done:
            episode.success = bool(step.success)
            break
    episode.final_observation = observation
    episode.stop = StopReason.SUCCESS if episode.success else StopReason.MAX_TURNS
    return episode


def _expert_turn(index: int, observation: Observation, action: str, rollouts: Rollouts) -> Turn:
    reply = rollouts.prompter.reply(action)
    return Turn(index=index, observation=observation, response=reply, action=action, executed=action)


def read_experts(path: Path) -> dict[str, Episode]:
    """Successful episodes of a file by task id, the shortest of each task. Raises ``ConfigError`` without any."""
    try:
        episodes = [episode for episode in read_episodes(path) if episode.success and episode.turns]
    except (OSError, RecordError) as error:
        raise ConfigError(f"method.demonstrations cannot be read: {error}") from error
    if not episodes:
        raise ConfigError(
            f"method.demonstrations is {path}, which holds no successful episode; give a file with some, or leave "
            "it out to let the environment's oracle demonstrate"
        )
    shortest: dict[str, Episode] = {}
    for episode in sorted(episodes, key=lambda episode: len(episode.turns)):
        shortest.setdefault(episode.task.id, episode)
    return shortest


class Experts:
    """The expert's episode of each task, found once."""

    def __init__(self, demonstrations: Path | None, knowledge: Knowledge) -> None:
        """``demonstrations``: an episode file; None = the environment's oracle plays."""
        self._file = demonstrations
        self._knowledge: Knowledge = knowledge
        self._recorded: Mapping[str, Episode] | None = None
        self._played: dict[str, Episode | None] = {}

    async def episode(self, task: Task, rollouts: Rollouts) -> Episode | None:
        """The expert's episode, or None where there is none."""
        if self._file is not None:
            if self._recorded is None:
                self._recorded = read_experts(self._file)
            return self._recorded.get(task.id)
        if task.id not in self._played:
            self._played[task.id] = await play_expert(task, rollouts, self._knowledge)
        return self._played[task.id]
