"""Where the policy, told the gold action, would not have said what it said (PivotOPD's self-teacher gap)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import PositiveInt

from turnpoint.envs import Env, EnvError, Knowledge
from turnpoint.envs.replay import Replay
from turnpoint.pivots.detectors.logprob_drop import fully_scored
from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
    require_oracle,
)
from turnpoint.pivots.detectors.report import differs
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import Situation, TeacherError

if TYPE_CHECKING:
    from turnpoint.policy import ScoreRequest

HINTED = "hinted"
"""Key of ``Turn.scores`` with log-probs of the response under the prompt with a hint."""


class HintedDetectorSettings(DetectorSettings):
    """Turns whose response the hinted policy likes least compared with the plain one."""

    kind: Literal["hinted"] = "hinted"
    top: PositiveInt = 1
    """Most turns named in an episode."""
    threshold: float = 0.0
    """Least mean gap in nats per token, plain minus hinted."""
    knowledge: Knowledge = "observed"
    """What the oracle may know where it names the gold actions."""

    def build(self, sources: Sources) -> HintedDetector:
        if sources.suite is not None and sources.naming is None:
            require_oracle(sources.suite, "hinted")
        return HintedDetector(self, sources)


class HintedDetector(Base):
    """The score is ``mean(log pi(y|c) - log pi(y|c+h))`` of the turn's tokens, in nats.

    Gold actions are those on record, else the oracle's of the environment, else the naming teacher's. Turns that
    took a gold action are not pivotal.
    """

    def __init__(self, settings: HintedDetectorSettings, sources: Sources) -> None:
        super().__init__(sources, "hinted", edges=(0.1, 0.3, 1.0, 3.0), probability=False)
        self.settings = settings
        self._env: Env | None = None

    def recorded(self, episode: Episode) -> list[Sample] | None:
        scored = {
            place: float(np.mean(np.subtract(turn.logprobs, turn.scores[HINTED])))
            for place, turn in enumerate(episode.turns)
            if turn.logprobs and fully_scored(turn, HINTED)
        }
        return [self._named(episode, scored)] if scored else None

    async def detect(self, episode: Episode) -> list[Sample]:
        self.sources.need("scorer", self.name)
        gold = await self._gold(episode)
        wanted: list[tuple[int, Turn, bool]] = []
        requests: list[ScoreRequest] = []
        for place, action in gold.items():
            turn = episode.turns[place]
            pair = self._requests(turn, action)
            if pair:
                wanted.append((place, turn, len(pair) == 2))
                requests += pair
        assert self.sources.scorer is not None
        values = iter(await self.sources.scorer.logprobs(requests))
        scored = {}
        for place, turn, plain_too in wanted:
            hinted = next(values)
            turn.scores[HINTED] = tuple(hinted.tolist())
            plain = next(values) if plain_too else np.asarray(turn.logprobs)
            scored[place] = float(np.mean(plain - hinted))
        return [self._named(episode, scored)]

    def _named(self, episode: Episode, scored: dict[int, float]) -> Sample:
        found = []
        for place, gap in scored.items():
            actions = episode.turns[place].gold_actions
            if gap > self.settings.threshold:
                found.append(Detection(place, gap, actions[0] if actions else None))
        return sorted(found, key=lambda d: (-d.score, d.turn))[: self.settings.top]

    def _requests(self, turn: Turn, gold: str) -> list[ScoreRequest]:
        """Hinted request, and the plain one where its log-probs are not on record; empty if it cannot be scored."""
        scorer = self.sources.scorer
        assert scorer is not None
        if not turn.response_ids or not turn.messages:
            self.counts["turn without prompt or tokens"] += 1
            return []
        hinted = scorer.hinted(turn, scorer.prompter.hint_text(gold))
        plain = None if turn.logprobs else scorer.plain(turn)
        if hinted is None or (plain is None and not turn.logprobs):
            self.counts["prompt does not fit"] += 1
            return []
        return [hinted] if plain is None else [hinted, plain]

    async def _gold(self, episode: Episode) -> dict[int, str]:
        """The gold action of every turn that did something else, by place."""
        if not any(turn.gold_actions for turn in episode.turns):
            if self.sources.suite is not None and self.sources.suite.capabilities.oracle:
                self._ask_oracle(episode)
            elif self.sources.naming is not None:
                await self._ask_teacher(episode)
            else:
                raise DetectorFailure("no gold actions", "neither on record nor from an oracle or a teacher")
        return {
            place: turn.gold_actions[0]
            for place, turn in enumerate(episode.turns)
            if turn.gold_actions and not any(not differs(gold, turn) for gold in turn.gold_actions)
        }

    def _ask_oracle(self, episode: Episode) -> None:
        assert self.sources.suite is not None
        if self._env is None:
            self._env = self.sources.suite.make()
        replay = Replay(self._env, episode)
        try:
            for place, turn in enumerate(episode.turns):
                replay.seek(place)
                turn.gold_actions = tuple(self._env.best_actions(self.settings.knowledge))
        except EnvError as error:
            self.close()
            raise DetectorFailure(type(error).__name__, str(error)) from error

    async def _ask_teacher(self, episode: Episode) -> None:
        assert self.sources.naming is not None
        for place, turn in enumerate(episode.turns):
            situation = Situation(
                episode.task, episode.turns[:place], turn.observation, episode=episode, turn=place
            )
            try:
                action = await self.sources.naming.recover(situation)
            except TeacherError as error:
                self.counts[f"teacher: {error.reason.value}"] += 1
                continue
            turn.gold_actions = () if action is None else (action,)

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:
                return  # it is given up anyway
