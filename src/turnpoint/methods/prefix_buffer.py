"""Where the next rollout of a task restarts: STRIDE's prefix buffer (arXiv 2609.14636)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from pydantic import model_validator

from turnpoint.config import Settings
from turnpoint.credit import leading_run, restart_turn
from turnpoint.methods.parts import UNUSABLE
from turnpoint.methods.scoring import turn_means
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Task
from turnpoint.records.codec import episode_from_dict, episode_to_dict
from turnpoint.rollouts import Start


class RestartSettings(Settings):
    """Where a restart begins (STRIDE)."""

    alpha: float | None = -0.8
    """A turn is correct if its score is above this (strict); null takes every turn with tokens for correct."""
    argmin_over: Literal["all", "new"] = "all"
    """k* is the weakest of all leading correct turns, as in the paper (it may pick the same reused turn for
    ever), or of the newly generated ones only."""

    @model_validator(mode="after")
    def _below_zero(self) -> Self:
        if self.alpha is not None and not self.alpha < 0:
            raise ValueError(
                f"alpha is {self.alpha}; turn scores are log-probs below 0, so no turn would ever count as correct: "
                "set a number such as -0.8, or null to take every turn for correct"
            )
        return self


@dataclass(slots=True)
class Prefix:
    """Turns to reuse; ``episode`` holds exactly these, and the state after them as its final one."""

    episode: Episode
    correct: int
    """Kmax of the rollout it comes from."""

    @property
    def turns(self) -> int:
        """k* - 1: number of reused turns."""
        return len(self.episode.turns)


class PrefixBuffer:
    """One prefix per task, replaced after each rollout of the task."""

    def __init__(self, settings: RestartSettings, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self._entries: dict[str, Prefix] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def start(self, task: Task) -> Start | None:
        """Where to restart ``task``; None = from its beginning."""
        entry = self._entries.get(task.id)
        if entry is None:
            return None
        return Start(replace(entry.episode, task=task), entry.turns)

    def drop(self, task: Task) -> None:
        """Forget the prefix of a task: its state could not be reproduced."""
        if self._entries.pop(task.id, None) is not None:
            self.tally.add("prefixes_dropped")

    def update(self, task: Task, episodes: Sequence[Episode]) -> None:
        """Replace the task's entry from its scored rollouts: largest Kmax first, the latest among equals.

        Kmax = 0 or k* = 1 is a full restart: the entry goes. Rollouts that broke off by a fault say nothing.
        """
        floor, chosen, most = self.settings.alpha, None, -1
        for episode in episodes:
            if episode.stop in UNUSABLE or not episode.new_turns:
                continue
            scores = turn_means(episode)
            correct = leading_run(scores, floor)
            self.tally.mean("window/k_max", correct)
            if correct >= most:
                chosen, most = episode, correct
        if chosen is None:
            return
        reused = len(chosen.turns) - len(chosen.new_turns)
        turn = restart_turn(turn_means(chosen), floor, argmin_over=self.settings.argmin_over, reused=reused)
        self.tally.mean("window/k_star", turn or 1)
        self._replace(task, chosen, most, turn or 1, reused)

    def _replace(self, task: Task, episode: Episode, correct: int, turn: int, reused: int) -> None:
        old = self._entries.pop(task.id, None)
        if old is not None:
            self.tally.mean("restarts_repeated", float(old.turns == turn - 1))
        if turn > 1:
            self.tally.mean("restarts_in_reused", float(turn <= reused))
            self._entries[task.id] = Prefix(_first_turns(episode, turn - 1), correct)

    def state_dict(self) -> dict[str, Any]:
        """All entries as plain JSON; native snapshots stay behind, so that states come back by replay."""
        return {
            task: {"episode": episode_to_dict(entry.episode), "correct": entry.correct}
            for task, entry in self._entries.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``."""
        self._entries = {
            task: Prefix(episode_from_dict(entry["episode"]), int(entry["correct"]))
            for task, entry in state.items()
        }


def _first_turns(episode: Episode, count: int) -> Episode:
    """The episode as if it ended before turn ``count`` (0-based); the turns' scores are kept."""
    return Episode(
        id=episode.id,
        task=episode.task,
        turns=[replace(turn, scores=dict(turn.scores)) for turn in episode.turns[:count]],
        kind=episode.kind,
        forked_from=episode.forked_from,
        step=episode.step,
        final_observation=episode.observation_at(count),
        final_snapshot=episode.turns[count].snapshot,
    )
