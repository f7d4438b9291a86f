"""Demonstrations: episodes played by the environment's oracle, with mistakes and hints mixed in on purpose.

They warm-start small agents. Perfect play alone would teach nothing about states that an imperfect agent gets
into, and an agent that never saw a hint cannot follow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
from pydantic import Field

from turnpoint.config import ConfigError, Settings
from turnpoint.envs import Env, EnvSuite, Knowledge
from turnpoint.prompts import Prompter
from turnpoint.records import Episode, EpisodeKind, Observation, StopReason, Task, Turn
from turnpoint.rollouts.streams import Streams

NOISE_TURNS = "noise_turns"
"""Key of ``Episode.info``: turns whose action was drawn at random, not demonstrated."""
SKIPPED_TURNS = "skipped_turns"
"""Key of ``Episode.info``: turns that recover from a setback and are withheld from training."""
DETOUR_TURNS = "detour_turns"
"""Key of ``Episode.info``: turns that follow a hint which the oracle would not have given."""


class DemonstrationSettings(Settings):
    """How demonstrations deviate from the oracle."""

    noise: float = Field(default=0.2, ge=0.0, lt=1.0)
    """Share of turns with a random admissible action: wrong or wasteful, as imperfect agents act."""
    hinted: float = Field(default=0.15, ge=0.0, le=1.0)
    """Share of episodes in which turns carry a hint."""
    hinted_turns: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of turns with a hint in those episodes."""
    detours: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of hints that name a random admissible action instead of a best one."""
    recoveries: float = Field(default=1.0, ge=0.0, le=1.0)
    """Share of setbacks (actions that made the task longer) whose repair is shown to the learner."""
    knowledge: Knowledge = "observed"
    """What the demonstrator knows: what the episode has shown, or the whole hidden state."""


def make_demonstrations(
    suite: EnvSuite,
    prompter: Prompter,
    tasks: Sequence[Task],
    settings: DemonstrationSettings | None = None,
    *,
    seed: int = 0,
    limit: int | None = None,
) -> Iterator[Episode]:
    """Play ``tasks`` in order, again from the start with other mistakes when they run out.

    Gives ``limit`` episodes, one per task if it is None. Turns have ``response`` and, where hinted, ``hint``; they
    have no tokens. Raises ``ConfigError`` if the environment has no oracle, or no admissible actions to draw from.
    """
    settings = settings or DemonstrationSettings()
    if not suite.capabilities.oracle:
        raise ConfigError(
            f"demonstrations are played by an oracle and environment '{suite.name}' has none; "
            "use an environment with one, or supervised training on an episode file"
        )
    if not suite.capabilities.admissible and (settings.noise or settings.hinted):
        raise ConfigError(
            f"environment '{suite.name}' does not list admissible actions to draw mistakes and hints from; "
            "set noise and hinted to 0"
        )
    if not tasks:
        raise ConfigError("demonstrations need at least one task")
    return _play_all(suite, prompter, tasks, settings, seed, len(tasks) if limit is None else limit)


def _play_all(
    suite: EnvSuite,
    prompter: Prompter,
    tasks: Sequence[Task],
    settings: DemonstrationSettings,
    seed: int,
    limit: int,
) -> Iterator[Episode]:
    streams = Streams(seed)
    env = suite.make()
    try:
        for number in islice(count(), limit):
            task = tasks[number % len(tasks)]
            rng = streams.rng("demonstration", number)
            yield _Demonstration(env, prompter, task, settings, rng, number).play(suite.max_turns)
    finally:
        env.close()


class _Demonstration:
    """One episode in the making."""

    def __init__(
        self,
        env: Env,
        prompter: Prompter,
        task: Task,
        settings: DemonstrationSettings,
        rng: np.random.Generator,
        number: int,
    ) -> None:
        self.env = env
        self.prompter = prompter
        self.settings = settings
        self.rng = rng
        self.hinted = bool(rng.random() < settings.hinted)
        self.repaired_at: int | None = None
        """Distance at which a setback is repaired; None while there is none."""
        self.hide_repair = False
        marks: dict[str, list[int]] = {NOISE_TURNS: [], SKIPPED_TURNS: [], DETOUR_TURNS: []}
        self.marks = marks
        self.episode = Episode(
            id=f"demo/{task.id}/{number}", task=task, kind=EpisodeKind.DEMONSTRATION, info=dict(marks)
        )

    def play(self, max_turns: int) -> Episode:
        episode = self.episode
        observation = self.env.reset(episode.task)
        episode.stop, episode.success = StopReason.MAX_TURNS, False
        for index in range(max_turns):
            best = self.env.best_actions(self.settings.knowledge)
            if not best:
                episode.stop, episode.success = StopReason.DEPTH_CAP, None
                break
            turn = self._turn(index, observation, best)
            episode.turns.append(turn)
            observation = episode.final_observation = self._step(turn)
            if turn.done:
                break
        return episode

    def _turn(self, index: int, observation: Observation, best: list[str]) -> Turn:
        """Choose the action of a turn and note why."""
        action, hint = best[0], None
        others = [a for a in observation.admissible or () if a not in best]
        noisy = bool(self.rng.random() < self.settings.noise) and bool(others)
        if noisy:
            action = str(self.rng.choice(others))
            self.marks[NOISE_TURNS].append(index)
        elif self.hinted and self.rng.random() < self.settings.hinted_turns:
            if others and self.rng.random() < self.settings.detours:
                action = str(self.rng.choice(others))
                self.marks[DETOUR_TURNS].append(index)
            hint = self.prompter.hint_text(action)
        if self.repaired_at is not None and self.hide_repair:
            self.marks[SKIPPED_TURNS].append(index)
        return Turn(
            index=index,
            observation=observation,
            response=self.prompter.reply(action),
            action=action,
            executed=action,
            hint=hint,
            gold_actions=tuple(best),
        )

    def _step(self, turn: Turn) -> Observation:
        """Execute the turn; with repairs to hide, follow the distance around setbacks."""
        risky = self.settings.recoveries < 1 and turn.executed not in turn.gold_actions
        before = self.env.distance() if risky else None
        step = self.env.step(turn.executed)
        turn.effective, turn.reward, turn.done = step.effective, step.reward, step.done
        if step.done:
            self.episode.stop = StopReason.SUCCESS if step.success else StopReason.FAILURE
            self.episode.success = bool(step.success)
        elif risky or self.repaired_at is not None:
            self._follow(before)
        return step.observation

    def _follow(self, before: int | None) -> None:
        after = self.env.distance()
        if self.repaired_at is None:
            if before is not None and (after is None or after > before):
                self.repaired_at = before
                self.hide_repair = bool(self.rng.random() >= self.settings.recoveries)
        elif after is not None and after <= self.repaired_at:
            self.repaired_at = None
