"""K from how many turns recoveries take, measured on the branches that are played anyway. Goes beyond the papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from turnpoint.config import ConfigError, Settings
from turnpoint.credit import recovered_within, turns_to_recover
from turnpoint.envs import Capabilities, EnvError
from turnpoint.methods.situations import resolve
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode
from turnpoint.rollouts import Branch, Rollouts

DEPTH = "recovery_depth"
"""Key of ``Episode.info`` of a branch: [turns until it had recovered, or until it ended, whether it had recovered]."""
_NEVER = 1_000_000
"""Turns of a branch that can recover no more."""


class AdaptiveTurnsSettings(Settings):
    """Choose K for every step; ``recovery_turns`` is where it starts."""

    least: PositiveInt = 1
    """Smallest K."""
    most: PositiveInt = 4
    """Largest K."""
    quantile: float = Field(default=0.5, gt=0.0, lt=1.0)
    """K is the fewest turns within which this share of branches recovers."""
    measure: Literal["auto", "oracle", "gold"] = "auto"
    """A branch has recovered when it succeeds, or, by the ``oracle``, when the distance is no larger than before the
    wrong turn, or, by the teacher's ``gold`` action, when it has done what was named for the wrong turn; ``auto`` = the
    oracle where there is one."""
    window: PositiveInt = 256
    """Latest branches that are looked at."""
    min_branches: PositiveInt = 16
    """Branches before K moves at all."""
    patience: PositiveInt = 3
    """Steps in a row that must ask for the same direction before K moves, by one."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least is {self.least} and most {self.most}; set most to at least {self.least}")
        if self.min_branches > self.window:
            raise ValueError(
                f"min_branches is {self.min_branches}, but only {self.window} are looked at; raise window"
            )
        return self

    def check(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` where branches cannot be executed or measured."""
        if not capabilities.deterministic:
            raise ConfigError(
                "method.adaptive_turns executes recovery branches, but this environment is not deterministic, so the "
                "state after a pivotal turn cannot be reproduced; set method.adaptive_turns to null"
            )
        if self.measure == "oracle" and not capabilities.oracle:
            raise ConfigError(
                "method.adaptive_turns.measure is oracle, but this environment has none; set it to gold"
            )


class AdaptiveTurns:
    """K of the next step, and the branches it follows from."""

    def __init__(self, settings: AdaptiveTurnsSettings, start: int, tally: Tally) -> None:
        self.settings = settings
        self.tally = tally
        self.turns = start
        """K of the step in progress."""
        self._branches: list[tuple[int, bool]] = []
        self._asked = 0
        """Steps in a row that asked for more (above 0) or for fewer turns (below)."""

    async def gauge(self, episode: Episode, turn: int, rollouts: Rollouts) -> Gauge | None:
        """What watches the branch after ``turn`` of ``episode``; None where there is nothing to measure against."""
        gold = next((p.resolved for p in episode.pivots if p.turn == turn and p.resolved), None)
        if self.settings.measure == "gold" or not rollouts.suite.capabilities.oracle:
            return Gauge(None, gold)
        if episode.distances_known:
            goal = episode.turns[turn].distance
        else:
            try:
                async with rollouts.envs.lend() as env:
                    await env.restore(episode, turn)
                    goal = await env.call(env.env.distance)
            except (EnvError, TimeoutError):
                self.tally.add("recovery_depth/not_restored")
                return None
        return None if goal is None else Gauge(goal, None)

    def learn(self, branches: Sequence[Episode]) -> None:
        """Take in the branches of a step, in order, and choose the next step's K."""
        s = self.settings
        fresh = [tuple(branch.info[DEPTH]) for branch in branches if DEPTH in branch.info]
        self._branches = [*self._branches, *((int(turns), bool(done)) for turns, done in fresh)][-s.window :]
        self.tally.mean("recovery_turns", self.turns)
        if not self._branches:
            return
        shares = recovered_within(self._branches)
        known = shares[: self.turns]
        self.tally.mean("recovered_within_turns", float(known[-1]) if known.size else 0.0)
        if len(self._branches) < s.min_branches:
            return
        found = turns_to_recover(self._branches, s.quantile)
        wanted = min(max(self.turns + 1 if found is None else found, s.least), s.most)
        self.tally.mean("recovery_turns_wanted", wanted)
        self._move(wanted)

    def _move(self, wanted: int) -> None:
        """One turn towards ``wanted``, once ``patience`` steps in a row have asked for that direction."""
        direction = (wanted > self.turns) - (wanted < self.turns)
        self._asked = self._asked + direction if self._asked * direction >= 0 and direction else direction
        if abs(self._asked) >= self.settings.patience:
            self.turns += direction
            self._asked = 0

    def state_dict(self) -> dict[str, Any]:
        """K, the branches looked at, and the steps that asked for another K."""
        return {
            "turns": self.turns,
            "asked": self._asked,
            "branches": [[turns, done] for turns, done in self._branches],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of ``state_dict``; K is put within bounds that were changed."""
        self.turns = min(max(int(state["turns"]), self.settings.least), self.settings.most)
        self._asked = int(state["asked"])
        self._branches = [(int(turns), bool(done)) for turns, done in state["branches"]]


class Gauge:
    """Watches one branch: after how many turns had it recovered?"""

    def __init__(self, goal: int | None, gold: str | None) -> None:
        """``goal``: the distance to come back to; ``gold``: the action to make up for; exactly one is used."""
        self.goal = goal
        self.gold = gold
        self._settled = False

    async def look(self, branch: Branch) -> None:
        """Take in the turn that was just executed; what is known is on record in the branch's ``info`` at any time."""
        if self._settled:
            return
        turn, done = branch.episode.turns[-1], len(branch.episode.turns)
        recovered, lost = bool(branch.episode.success), turn.done and not branch.episode.success
        if not recovered and not lost and self.goal is not None:
            distance = await branch.distance()
            recovered, lost = distance is not None and distance <= self.goal, distance is None
        elif not recovered and self.gold is not None:
            recovered = resolve(turn.executed, turn.observation) == self.gold
        self._settled = recovered or lost
        branch.episode.info[DEPTH] = [_NEVER if lost and not recovered else done, recovered]
