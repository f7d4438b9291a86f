"""What a detector is, what it may ask, and the kinds there are.

A detector reads a finished episode and names turns (0-based places in ``Episode.turns``) with scores, the most
suspicious first. What is on record (distances, reports, reflections, teacher scores) is used as it is; ``detect``
asks an environment or a model, and only where one is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnpoint.config import ConfigError, Registry, Settings
from turnpoint.envs import EnvSuite
from turnpoint.records import Episode, Task
from turnpoint.rollouts import Rollouts, Scorer
from turnpoint.teachers.protocol import NamingTeacher, ScoringTeacher


@dataclass(frozen=True, slots=True)
class Detection:
    """A turn named as pivotal."""

    turn: int
    score: float
    """How surely, in the detector's own unit (see ``Detector.edges``); higher is surer."""
    gold: str | None = None
    """The better action, where the detector names one."""


Sample = list[Detection]
"""One answer of a detector, the most suspicious turn first; a detector that draws may give several."""


class DetectorFailure(RuntimeError):
    """A detector has no answer for an episode; callers count by ``reason`` (one word or a few)."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason


@dataclass(slots=True)
class Sources:
    """What detectors may ask; None = only what is on record counts."""

    suite: EnvSuite | None = None
    """Environment of the episodes, for replays."""
    naming: NamingTeacher | None = None
    scoring: Callable[[Task], ScoringTeacher] | None = None
    """The scoring teacher of a task."""
    rollouts: Rollouts | None = None
    """Samples the policy."""
    scorer: Scorer | None = None
    """Scores with the policy."""

    def need(self, name: str, detector: str) -> None:
        """Raise ``DetectorFailure`` unless the source called ``name`` is there."""
        if getattr(self, name) is None:
            raise DetectorFailure(
                "not on record", f"detector '{detector}' has nothing on record and no {name}"
            )


class Detector(Protocol):
    """Names pivotal turns. Raises ``DetectorFailure`` where it cannot; everything else is an error of the run."""

    name: str
    edges: Sequence[float]
    """Inner borders between bins of scores, ascending, for the calibration table."""
    probability: bool
    """Scores lie in 0..1 and are meant as the probability that the turn is pivotal."""
    learns: bool
    """Wants to see some of the episodes beforehand (``prepare``)."""
    counts: Counter[str]
    """Answers that were left out, by reason."""

    def recorded(self, episode: Episode) -> list[Sample] | None:
        """Answers from what is on record; None if it holds none."""

    async def detect(self, episode: Episode) -> list[Sample]:
        """Answers from the sources; may put what it learnt on record in ``episode``."""

    async def prepare(self, episodes: Sequence[Episode]) -> None:
        """Look at some of the episodes before the first one is judged (baselines)."""

    def close(self) -> None:
        """Release what it holds."""


@dataclass(slots=True)
class Base:
    """What most detectors share."""

    sources: Sources
    name: str = ""
    edges: Sequence[float] = (0.2, 0.4, 0.6, 0.8)
    probability: bool = True
    learns: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    async def prepare(self, episodes: Sequence[Episode]) -> None:
        """Nothing to learn beforehand."""

    def close(self) -> None:
        """Nothing is held."""


class DetectorSettings(Settings):
    """Base of every detector's settings; subclasses add fields and build the detector."""

    kind: str
    """Which detector."""

    def build(self, sources: Sources) -> Detector:
        """The detector; raises ``ConfigError`` where the sources cannot serve it."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")


detector_registry: Registry[DetectorSettings] = Registry(
    "turnpoint.detectors",
    DetectorSettings,
    {
        "oracle": "turnpoint.pivots.detectors.oracle:OracleDetectorSettings",
        "report": "turnpoint.pivots.detectors.report:ReportDetectorSettings",
        "reflection": "turnpoint.pivots.detectors.reflection:ReflectionDetectorSettings",
        "logprob_drop": "turnpoint.pivots.detectors.logprob_drop:LogprobDropSettings",
        "hinted": "turnpoint.pivots.detectors.hinted:HintedDetectorSettings",
        "vote": "turnpoint.pivots.detectors.vote:VoteDetectorSettings",
    },
)


def require_oracle(suite: EnvSuite, detector: str) -> None:
    """Raise ``ConfigError`` if the environment has no oracle or cannot bring recorded states back."""
    able = suite.capabilities
    if not able.oracle or not (able.snapshots or able.deterministic):
        lacks = "no oracle" if not able.oracle else "neither snapshots nor deterministic replay"
        raise ConfigError(
            f"detector '{detector}' asks the environment's oracle, but '{suite.name}' has {lacks}; leave the "
            "environment out to use what is on record, or choose another detector"
        )
