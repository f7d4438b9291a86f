"""Errors put into an oracle's answers, for studies of what an imperfect teacher does to a method.

Every error is a pure function of the seed and of what was asked, so that runs repeat and resume bit for bit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import Field

from turnpoint.config import Settings


class NoiseSettings(Settings):
    """How often, and how, the stand-in for an imperfect teacher errs."""

    actions: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of named actions that are wrong: another admissible one, drawn evenly from those that are not best."""
    turns: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of named turns that are wrong: another turn of the episode, drawn evenly, with a wrong action."""
    repeated: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of these errors that come back whenever the same is asked again (a prejudice, which no vote can find);
    the others are drawn anew for every answer."""
    seed: int = 0
    """Of the errors."""


class Noise:
    """Decides which answers of one draw are wrong.

    With error rate p, of which a share s is repeated, a place errs in every draw with probability ps, and otherwise
    in each draw by itself with probability p(1 − s) / (1 − ps): p in all.
    """

    def __init__(self, settings: NoiseSettings, draw: int = 0) -> None:
        self.settings = settings
        self.draw = draw

    def wrong_action(
        self, best: Sequence[str], admissible: Sequence[str], taken: str, place: str
    ) -> str | None:
        """The wrong action named instead of ``best[0]``; None where the answer is right or no wrong one exists.

        ``taken``: what was done there, which is no answer either; "" if nothing was.
        """
        rng = self._errs("action", self.settings.actions, place)
        return None if rng is None else self.other_action(best, admissible, taken, rng)

    def wrong_turn(self, others: Sequence[int], place: str) -> tuple[int, random.Random] | None:
        """The turn named instead, and the stream that goes on from there; None where the turn is right."""
        rng = self._errs("turn", self.settings.turns, place)
        return None if rng is None or not others else (rng.choice(list(others)), rng)

    @staticmethod
    def other_action(
        best: Sequence[str], admissible: Sequence[str], taken: str, rng: random.Random
    ) -> str | None:
        """An admissible action that is neither best nor ``taken``; None if there is none."""
        wrong = [action for action in admissible if action not in best and action != taken]
        return rng.choice(wrong) if wrong else None

    def _errs(self, what: str, rate: float, place: str) -> random.Random | None:
        """The stream of an error at ``place``; None if there is no error."""
        if rate == 0:
            return None
        repeated = rate * self.settings.repeated
        shared = random.Random(f"{self.settings.seed}/{what}/{place}")
        if shared.random() < repeated:
            return shared
        own = random.Random(f"{self.settings.seed}/{what}/{place}/{self.draw}")
        return own if repeated < 1 and own.random() < (rate - repeated) / (1 - repeated) else None
