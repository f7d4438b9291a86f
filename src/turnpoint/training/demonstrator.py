"""How a demonstrator plays: the oracle's actions, with the mistakes, hints and slips that the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from turnpoint.config import Settings
from turnpoint.envs import Env, Knowledge
from turnpoint.prompts import Prompter
from turnpoint.records import Episode, Observation, StopReason, Turn

NOISE_TURNS = "noise_turns"
"""Key of ``Episode.info``: turns whose action was drawn at random, not demonstrated."""
SKIPPED_TURNS = "skipped_turns"
"""Key of ``Episode.info``: turns that recover from a setback and are withheld from training."""
DETOUR_TURNS = "detour_turns"
"""Key of ``Episode.info``: turns that follow a hint which the oracle would not have given."""
_DRAWS = 8
"""How many actions are tried to find one that sets an attempt back."""


class DemonstrationSettings(Settings):
    """How demonstrations deviate from the oracle."""

    noise: float = Field(default=0.2, ge=0.0, lt=1.0)
    """Share of turns with a random admissible action: wrong or wasteful, as imperfect agents act."""
    slips: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of those that are not even admissible: an action that was possible before, or a reply that cannot be read.
    They show the learner what the environment answers then, and how to go on."""
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
    failing: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of demonstrations played badly. One that fails gets a reflection and a second attempt, which counts
    as part of the same demonstration: how an agent learns the form of retries before it is trained with them."""
    blunders: float = Field(default=0.4, gt=0.0, lt=1.0)
    """Share of turns of those with an action that sets the attempt back, or ends it."""
    reflection_accuracy: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of reflections that name the earliest wrong turn and the action it needed; the others blame another
    turn. Below 1 on purpose: it leaves the reflection's own training something to improve."""
    reflection_pivot: float = Field(default=1.0, ge=0.0, le=1.0)
    """Share of reflections that name the turn to go on from (PivoARL); the others are a remark for a full restart
    (MetaRL). Methods that ask for the one or the other can so share a warm start."""


class Demonstrator:
    """Plays one attempt and notes in its ``info`` which turns are not the demonstrator's own choice."""

    def __init__(
        self,
        env: Env,
        prompter: Prompter,
        settings: DemonstrationSettings,
        rng: np.random.Generator,
        *,
        blunders: float = 0.0,
    ) -> None:
        self.env = env
        self.prompter = prompter
        self.settings = settings
        self.rng = rng
        self.blunders = blunders
        self.hinted = bool(rng.random() < settings.hinted) and not blunders
        self.repaired_at: int | None = None
        """Distance at which a setback is repaired; None while there is none."""
        self.hide_repair = False
        self.marks: dict[str, list[int]] = {NOISE_TURNS: [], SKIPPED_TURNS: [], DETOUR_TURNS: []}

    def play(
        self, episode: Episode, max_turns: int, *, snapshot: Any = None, shown: Observation | None = None
    ) -> Episode:
        """Fill ``episode``, from its beginning or after its reused turns at ``snapshot``, where ``shown`` is seen."""
        episode.info = dict(self.marks)
        if shown is None:
            observation = self.env.reset(episode.task)
        else:
            self.env.restore(snapshot)
            observation = shown
        episode.stop, episode.success = StopReason.MAX_TURNS, False
        while len(episode.turns) < max_turns:
            best = self.env.best_actions(self.settings.knowledge)
            if not best:
                episode.stop, episode.success = StopReason.DEPTH_CAP, None
                break
            turn = self._turn(episode, observation, best)
            episode.turns.append(turn)
            observation = episode.final_observation = self._step(episode, turn)
            if turn.done:
                break
        return episode

    def _turn(self, episode: Episode, observation: Observation, best: list[str]) -> Turn:
        """Choose the action of the next turn and note why."""
        index = len(episode.turns)
        action, hint = best[0], None
        others = [a for a in observation.admissible or () if a not in best]
        snapshot = self.env.snapshot() if self.blunders else None
        noisy = bool(self.rng.random() < (self.blunders or self.settings.noise)) and bool(others)
        reply = None
        if noisy:
            self.marks[NOISE_TURNS].append(index)
            if self.settings.slips and self.rng.random() < self.settings.slips:
                action, reply = self._slip(episode, observation)
            elif self.blunders:
                action = self._setback(others, snapshot)
            else:
                action = str(self.rng.choice(others))
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
            response=self.prompter.reply(action) if reply is None else reply,
            action=action or None,
            executed=action,
            hint=hint,
            gold_actions=tuple(best),
            snapshot=snapshot,
        )

    def _slip(self, episode: Episode, observation: Observation) -> tuple[str, str | None]:
        """An action that is not admissible any more; without one, or in half of the cases, a reply without tags.

        Gives the executed text (empty for a reply that cannot be read) and the reply where it is not the usual one.
        """
        now = observation.admissible or ()
        past = [a for turn in episode.turns for a in (turn.executed, *(turn.observation.admissible or ()))]
        gone = [a for a in dict.fromkeys(past) if a and a not in now]
        bare = str(self.rng.choice(now))
        if gone and (self.rng.random() < 0.5 or self.prompter.parse(bare) is not None):
            return str(self.rng.choice(gone)), None
        return (bare, None) if self.prompter.parse(bare) is not None else ("", bare)

    def _setback(self, others: Sequence[str], snapshot: Any) -> str:
        """Of ``others`` one that sets the attempt back or loses it, where a few draws find one."""
        before = self.env.distance()
        action = ""
        for drawn in self.rng.permutation(len(others))[:_DRAWS]:
            action = others[drawn]
            step = self.env.step(action)
            after = None if step.done and not step.success else self.env.distance()
            self.env.restore(snapshot)
            if after is None or (before is not None and after > before):
                break
        return action

    def _step(self, episode: Episode, turn: Turn) -> Observation:
        """Execute the turn; with repairs to hide, follow the distance around setbacks."""
        risky = self.settings.recoveries < 1 and turn.executed not in turn.gold_actions
        before = self.env.distance() if risky else None
        step = self.env.step(turn.executed)
        turn.effective, turn.reward, turn.done = step.effective, step.reward, step.done
        if step.done:
            episode.stop = StopReason.SUCCESS if step.success else StopReason.FAILURE
            episode.success = bool(step.success)
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
