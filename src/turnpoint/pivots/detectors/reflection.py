"""The policy's own reflection on its failed attempt (PivoARL's trigger)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

from pydantic import PositiveInt

from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
)
from turnpoint.records import Episode, Reflection
from turnpoint.rollouts import reflect


class ReflectionDetectorSettings(DetectorSettings):
    """The earliest wrong turn that the policy names itself."""

    kind: Literal["reflection"] = "reflection"
    samples: PositiveInt = 1
    """Reflections sampled for each episode."""
    max_tokens: PositiveInt = 512
    """Longest reflection."""

    def build(self, sources: Sources) -> ReflectionDetector:
        return ReflectionDetector(self, sources)


class ReflectionDetector(Base):
    """The score is the share of reflections that name the turn or a neighbour."""

    def __init__(self, settings: ReflectionDetectorSettings, sources: Sources) -> None:
        super().__init__(sources, "reflection")
        self.settings = settings

    def recorded(self, episode: Episode) -> list[Sample] | None:
        return None if episode.reflection is None else self._scored(episode, [episode.reflection])

    async def detect(self, episode: Episode) -> list[Sample]:
        self.sources.need("rollouts", self.name)
        rollouts = self.sources.rollouts
        assert rollouts is not None
        if not episode.turns:
            raise DetectorFailure("no turns")
        said = await asyncio.gather(
            *(
                # the id names the random stream, so every sample needs one of its own
                reflect(
                    rollouts, replace(episode, id=f"{episode.id}/{n}"), max_tokens=self.settings.max_tokens
                )
                for n in range(self.settings.samples)
            )
        )
        return self._scored(episode, said)

    def _scored(self, episode: Episode, said: list[Reflection]) -> list[Sample]:
        """An invalid reflection names nothing, which is a wrong answer."""
        named = [r.pivot if r.valid else None for r in said]
        self.counts["invalid reflection"] += sum(not r.valid for r in said)
        within = [t if t is not None and 0 <= t < len(episode.turns) else None for t in named]
        self.counts["turn outside the episode"] += sum(a != b for a, b in zip(named, within, strict=True))

        def share(turn: int) -> float:
            return sum(t is not None and abs(t - turn) <= 1 for t in within) / len(within)

        return [[] if t is None else [Detection(t, share(t))] for t in within]
