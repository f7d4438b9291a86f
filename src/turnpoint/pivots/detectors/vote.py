"""Several detectors together: a turn counts if enough of them name it or a neighbour."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, SerializeAsAny, model_validator

from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    Detector,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
    detector_registry,
)
from turnpoint.records import Episode

Member = Annotated[SerializeAsAny[DetectorSettings], BeforeValidator(detector_registry.parse)]


class VoteDetectorSettings(DetectorSettings):
    """Turns on which several detectors agree."""

    kind: Literal["vote"] = "vote"
    members: list[Member] = Field(default_factory=lambda: [detector_registry.parse("report"),
                                                          detector_registry.parse("logprob_drop")])  # fmt: skip
    """The detectors that vote."""
    least: PositiveInt = 2
    """Votes a turn needs."""
    window: NonNegativeInt = 1
    """How far apart two detectors may name the same mistake, in turns."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.least > len(self.members):
            raise ValueError(
                f"least is {self.least}, but there are {len(self.members)} members, so that no turn could ever be "
                "named; lower least or add members"
            )
        return self

    def build(self, sources: Sources) -> VoteDetector:
        return VoteDetector(self, sources, [member.build(sources) for member in self.members])


class VoteDetector(Base):
    """The score is the share of detectors that name the turn or a neighbour."""

    def __init__(self, settings: VoteDetectorSettings, sources: Sources, members: Sequence[Detector]) -> None:
        super().__init__(sources, "vote", learns=any(member.learns for member in members))
        self.settings = settings
        self.members = members

    async def prepare(self, episodes: Sequence[Episode]) -> None:
        for member in self.members:
            await member.prepare(episodes)

    def recorded(self, episode: Episode) -> list[Sample] | None:
        answers = [member.recorded(episode) for member in self.members]
        known = [answer for answer in answers if answer is not None]
        return self._votes(known) if len(known) == len(answers) else None

    async def detect(self, episode: Episode) -> list[Sample]:
        asked = await asyncio.gather(*(self._ask(member, episode) for member in self.members))
        answers = [answer for answer in asked if answer is not None]
        if len(answers) < self.settings.least:
            raise DetectorFailure("too few members answered")
        return self._votes(answers)

    async def _ask(self, member: Detector, episode: Episode) -> list[Sample] | None:
        found = member.recorded(episode)
        if found is not None:
            return found
        try:
            return await member.detect(episode)
        except DetectorFailure as failure:
            self.counts[f"{member.name}: {failure.reason}"] += 1
            return None

    def _votes(self, answers: Sequence[list[Sample]]) -> list[Sample]:
        """As many samples as the member with the most has; the others' go round."""
        rounds = max((len(answer) for answer in answers), default=0)
        return [self._count([answer[n % len(answer)] for answer in answers if answer]) for n in range(rounds)]

    def _count(self, ballots: Sequence[Sample]) -> Sample:
        """Turns in order of votes; each detector's name counts for one turn only."""
        open_ballots = [[d.turn for d in ballot] for ballot in ballots]
        named: Sample = []
        while True:
            exact = Counter(turn for ballot in open_ballots for turn in set(ballot))
            tally = {t: sum(self._near(t, ballot) for ballot in open_ballots) for t in exact}
            best = max(tally, key=lambda t: (tally[t], exact[t], -t), default=None)
            if best is None or tally[best] < self.settings.least:
                return named
            gold = next((d.gold for ballot in ballots for d in ballot if d.turn == best and d.gold), None)
            named.append(Detection(best, tally[best] / len(self.members), gold))
            open_ballots = [
                [t for t in ballot if abs(t - best) > self.settings.window] for ballot in open_ballots
            ]

    def _near(self, turn: int, ballot: Sequence[int]) -> bool:
        return any(abs(turn - t) <= self.settings.window for t in ballot)

    def close(self) -> None:
        for member in self.members:
            member.close()
