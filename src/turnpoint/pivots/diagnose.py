"""What failed episodes show: where they turn, what it costs, and which detectors find it; flat memory.

Episodes stream through ``diagnose``; nothing of them is kept but sums. Every episode or answer that is left out is
counted with a reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from turnpoint.pivots.agreement import WINDOW, Calibration, chance_agreement, near, sample_agreement
from turnpoint.pivots.counted import why_not_counted
from turnpoint.pivots.detectors.protocol import Detector, DetectorFailure, Sample
from turnpoint.pivots.oracle import distances, oracle_pivots
from turnpoint.pivots.statistics import Interval
from turnpoint.pivots.streaming import StreamingMeans
from turnpoint.records import Episode

Values = dict[str, float | Sequence[float]]
Answer = list[Sample] | DetectorFailure
"""What a detector says about an episode: samples, or why there are none."""
Keep = Callable[[Episode, Mapping[str, Answer]], object]
"""Called with each episode that counts and its answers."""
FIGURES = (
    "success", "turns", "failed_with_pivot", "failed_without_pivot", "pivot_any", "pivot_rate", "recovered",
    "first_pivot", "remaining", "impossible", "wasted",
)  # fmt: skip
"""Means of all episodes, of each task type and of each step."""
_MOST_TYPES = 60
_MOST_STEPS = 2_000


@dataclass(slots=True)
class DetectorTally:
    """Counts of one detector over the stream."""

    calibration: Calibration
    named: int = 0
    """Detections, over all samples."""
    right: int = 0
    """Those within the window of any oracle pivot, where distances are known."""
    judged: int = 0
    """Detections in episodes with known distances."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes without an answer, by reason."""
    examples: dict[str, str] = field(default_factory=dict)
    """What the first failure of each reason says."""
    first: Counter[int] = field(default_factory=Counter)
    """First named turn of failed episodes (first sample)."""


class Diagnosis:
    """Takes episodes with their detectors' answers and keeps the figures."""

    def __init__(self, detectors: Mapping[str, Detector], *, window: int = WINDOW, draws: int = 1000) -> None:
        self.window = window
        self.means = StreamingMeans(draws=draws)
        self.tallies = {
            name: DetectorTally(Calibration(detector.edges, detector.probability))
            for name, detector in detectors.items()
        }
        self._shared = {
            *FIGURES,
            *(f"detector\x00{name}\x00agreement" for name in detectors if name != "oracle"),
        }
        """Means that are also kept for each task type and each step: every one more takes memory for all of them."""
        self.read = 0
        self.left_out: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self.steps: Counter[int] = Counter()
        self.first_pivot: Counter[int] = Counter()
        self.impossible = 0
        """Failed episodes whose first pivot made the task impossible."""

    def wants(self, episode: Episode) -> bool:
        """Whether the episode counts; one that does not is counted with its reason."""
        self.read += 1
        reason = why_not_counted(episode)
        if reason is not None:
            self.left_out[reason] += 1
        return reason is None

    def add(self, episode: Episode, answers: Mapping[str, Answer]) -> None:
        """Count an episode; ``answers``: those of each detector."""
        failed = not episode.success
        self.stops[str(episode.stop)] += 1
        values: Values = {"success": float(not failed), "turns": float(len(episode.turns))}
        values |= self._oracle_values(episode, failed)
        for name, answer in answers.items():
            if isinstance(answer, DetectorFailure):
                self.tallies[name].left_out[answer.reason] += 1
                self.tallies[name].examples.setdefault(answer.reason, str(answer))
            else:
                values |= self._detector_values(name, episode, answer, failed)
        shared = {name: value for name, value in values.items() if name in self._shared}
        kept = {**values}
        for prefix in self._groups(episode):
            kept |= {f"{prefix}{name}": value for name, value in shared.items()}
        self.means.add(episode.task.id, kept)

    def _groups(self, episode: Episode) -> Iterator[str]:
        kind = episode.task.type
        if kind in self.types or len(self.types) < _MOST_TYPES:
            self.types[kind] += 1
            yield f"type\x00{kind}\x00"
        else:
            self.types["(others)"] += 1
            yield "type\x00(others)\x00"
        if episode.step in self.steps or len(self.steps) < _MOST_STEPS:
            self.steps[episode.step] += 1
            yield f"step\x00{episode.step}\x00"

    def _oracle_values(self, episode: Episode, failed: bool) -> Values:
        if not episode.distances_known:
            return {}
        pivots = oracle_pivots(episode)
        values: Values = {
            "pivot_any": float(bool(pivots)),
            "failed_with_pivot": float(failed and bool(pivots)),
            "failed_without_pivot": float(failed and not pivots),
        }
        if not failed:
            return values | ({"recovered": 1.0} if pivots else {})
        values["pivot_rate"] = float(bool(pivots))
        if pivots:
            first = pivots[0]
            remaining = distances(episode)[first + 1]
            self.first_pivot[first] += 1
            self.impossible += remaining is None
            values |= {
                "recovered": 0.0,
                "first_pivot": float(first),
                "wasted": float(len(episode.turns) - 1 - first),
                "impossible": float(remaining is None),
            }
            if remaining is not None:
                values["remaining"] = float(remaining)
        return values

    def _detector_values(self, name: str, episode: Episode, samples: list[Sample], failed: bool) -> Values:
        tally, key = self.tallies[name], f"detector\x00{name}\x00"
        turns = [[d.turn for d in sample] for sample in samples]
        values: Values = {}
        if failed:
            values[f"{key}named_rate"] = sum(map(bool, turns)) / max(1, len(turns))
            first = min(turns[0], default=None) if turns else None
            if first is not None:
                tally.first[first] += 1
                values[f"{key}first"] = float(first)
                values[f"{key}wasted"] = float(len(episode.turns) - 1 - first)
        tally.named += sum(map(len, turns))
        if not episode.distances_known or not turns:
            return values
        pivots = oracle_pivots(episode)
        flags = [near(turn, pivots, self.window) for sample in turns for turn in sample]
        for detection, right in zip((d for sample in samples for d in sample), flags, strict=True):
            tally.calibration.add(detection.score, right)
        tally.judged += len(flags)
        tally.right += sum(flags)
        if flags:
            values[f"{key}precision"] = [float(flag) for flag in flags]
        if pivots:
            found = [near(pivot, sample, self.window) for sample in turns for pivot in pivots]
            values[f"{key}recall"] = [float(flag) for flag in found]
            if failed:
                length = len(episode.turns)
                values[f"{key}agreement"] = sample_agreement(turns, pivots[0], self.window)
                values[f"{key}chance"] = sum(
                    chance_agreement(length, len(set(sample)), pivots[0], self.window) for sample in turns
                ) / len(turns)
        return values

    # -- results -------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        counted = sum(self.stops.values())
        return {
            "episodes": self.read,
            "counted": counted,
            "left_out": dict(sorted(self.left_out.items())),
            "stops": dict(sorted(self.stops.items())),
            "overall": self._figures(""),
            "first_pivot_turn": _quantiles(self.first_pivot),
            "by_type": {
                kind: {"episodes": count, **self._figures(f"type\x00{kind}\x00")}
                for kind, count in sorted(self.types.items())
            },
            "by_step": {
                str(step): {"episodes": count, **self._figures(f"step\x00{step}\x00")}
                for step, count in sorted(self.steps.items())
            },
            "detectors": {name: self._detector(name) for name in self.tallies},
        }

    def _figures(self, prefix: str) -> dict[str, Any]:
        found = {name: self.means.interval(f"{prefix}{name}") for name in FIGURES}
        figures: dict[str, Any] = {k: v.as_dict() for k, v in found.items() if v is not None}
        found_in = {
            name: agreement.as_dict()
            for name in self.tallies
            if name != "oracle"
            and (agreement := self.means.interval(f"{prefix}detector\x00{name}\x00agreement")) is not None
        }
        return figures | ({"agreement": found_in} if prefix and found_in else {})

    def _detector(self, name: str) -> dict[str, Any]:
        tally = self.tallies[name]

        def interval(figure: str) -> dict[str, Any] | None:
            found: Interval | None = self.means.interval(f"detector\x00{name}\x00{figure}")
            return None if found is None else found.as_dict()

        figures = {
            figure: value
            for figure in (
                "named_rate",
                "first",
                "wasted",
                "agreement",
                "chance",
                "precision",
                "recall",
            )
            if (value := interval(figure)) is not None
        }
        return figures | {
            "named": tally.named,
            "first_named_turn": _quantiles(tally.first),
            "calibration": tally.calibration.as_dict(),
            "left_out": dict(sorted(tally.left_out.items())),
            "reasons": dict(sorted(tally.examples.items())),
        }


def _quantiles(counts: Counter[int]) -> dict[str, float] | None:
    """Quartiles of turns counted by number; None of nothing."""
    total = sum(counts.values())
    if not total:
        return None
    found, done, wanted = {}, 0, {"q25": 0.25, "median": 0.5, "q75": 0.75}
    for turn in sorted(counts):
        done += counts[turn]
        for name, share in wanted.items():
            if name not in found and done >= share * total:
                found[name] = float(turn)
    return found


# -- the stream --------------------------------------------------------------------------------------------------


async def diagnose(
    episodes: Iterable[Episode],
    detectors: Mapping[str, Detector],
    diagnosis: Diagnosis,
    *,
    ask: bool = False,
    batch: int = 64,
    only_failures: bool = True,
    keep: Keep | None = None,
) -> Diagnosis:
    """Judge every episode with every detector; recorded answers are taken first, others asked for with ``ask``.

    ``only_failures``: models are asked about failed episodes only.
    """
    async for chosen in _batches(episodes, diagnosis, batch):
        answers = await asyncio.gather(
            *(_answers(episode, detectors, _asks(episode, ask, only_failures)) for episode in chosen)
        )
        for episode, answer in zip(chosen, answers, strict=True):
            diagnosis.add(episode, answer)
            if keep is not None:
                keep(episode, answer)
    for name, detector in detectors.items():
        diagnosis.tallies[name].left_out.update(
            {f"answer: {reason}": count for reason, count in detector.counts.items() if count}
        )
    return diagnosis


async def _batches(
    episodes: Iterable[Episode], diagnosis: Diagnosis, size: int
) -> AsyncIterator[list[Episode]]:
    source = iter(episodes)
    while batch := list(islice(source, size)):
        yield [episode for episode in batch if diagnosis.wants(episode)]


def _asks(episode: Episode, ask: bool, only_failures: bool) -> bool | None:
    """Whether models are asked about an episode; None = no, and that is no loss."""
    return None if ask and only_failures and episode.success else ask


async def _answers(
    episode: Episode, detectors: Mapping[str, Detector], ask: bool | None
) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for name, detector in detectors.items():
        found = detector.recorded(episode)
        if found is not None:
            answers[name] = found
        elif not ask and name != "oracle":  # the oracle needs no model, only an environment
            if ask is not None:
                answers[name] = DetectorFailure("not on record")
        else:
            try:
                answers[name] = await detector.detect(episode)
            except DetectorFailure as failure:
                answers[name] = failure
    return answers
