"""The oracle's distance: a turn is pivotal if the task is farther from done after it (PivotOPD section 3)."""

from __future__ import annotations

import math
from typing import Literal

from turnpoint.envs import Env, EnvError
from turnpoint.pivots.detectors.protocol import (
    Base,
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
    require_oracle,
)
from turnpoint.pivots.oracle import distances, measure_distances, oracle_pivots
from turnpoint.records import Episode


class OracleDetectorSettings(DetectorSettings):
    """Distances on record, or measured by replay in the environment."""

    kind: Literal["oracle"] = "oracle"

    def build(self, sources: Sources) -> OracleDetector:
        if sources.suite is not None:
            require_oracle(sources.suite, "oracle")
        return OracleDetector(sources)


class OracleDetector(Base):
    """The score is the rise of the distance in turns; infinite where the task became impossible."""

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, "oracle", edges=(1.5, 2.5, 4.5), probability=False)
        self._env: Env | None = None

    def recorded(self, episode: Episode) -> list[Sample] | None:
        if not episode.distances_known:
            return None
        path = distances(episode)
        return [[Detection(turn, _rise(path[turn], path[turn + 1])) for turn in oracle_pivots(episode)]]

    async def detect(self, episode: Episode) -> list[Sample]:
        self.sources.need("suite", self.name)
        assert self.sources.suite is not None
        if self._env is None:
            self._env = self.sources.suite.make()
        try:
            measure_distances(self._env, episode)
        except EnvError as error:
            self.close()
            raise DetectorFailure(type(error).__name__, str(error)) from error
        except Exception as error:  # an environment from outside may raise anything on foreign records
            self.close()
            raise DetectorFailure("environment error", f"{type(error).__name__}: {error}") from error
        return self.recorded(episode) or [[]]

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            try:
                env.close()
            except Exception:
                return  # it is given up anyway


def _rise(before: int | None, after: int | None) -> float:
    return math.inf if after is None or before is None else float(after - before)
