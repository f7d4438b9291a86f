"""Which episodes a report shows: a bounded number, spread over the run, groups and branches kept together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnpoint.inspector.folder import LineRef, RunFolder, line_refs, read_refs
from turnpoint.records import Episode, EpisodeKind

_STEPS = 6
"""Training steps that episodes are taken from."""
_MOST_LINES = 5_000
"""Lines that are parsed of one file."""


@dataclass(slots=True)
class Sample:
    """Episodes to show, and how many there are."""

    eval_step: int | None = None
    eval_total: int = 0
    evals: list[Episode] = field(default_factory=list)
    train_steps: list[int] = field(default_factory=list)
    train_total: int = 0
    """Lines in all training files that were opened, branches included."""
    trains: list[Episode] = field(default_factory=list)
    """Each episode is followed by its recovery branches."""


def spread(count: int, most: int) -> list[int]:
    """``most`` evenly spread indices below ``count``, first and last among them; all if there are fewer."""
    if count <= most:
        return list(range(count))
    if most <= 1:
        return [count - 1][:most]
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def sample_run(run: RunFolder, *, most_evals: int = 60, most_trains: int = 60) -> Sample:
    """Episodes of the last evaluation, and of up to six training steps with their branches."""
    sample = Sample()
    if run.eval_files:
        sample.eval_step, path = run.eval_files[-1]
        refs = _refs(path, run.problems)
        sample.eval_total = len(refs)
        sample.evals = read_refs([refs[i] for i in spread(len(refs), most_evals)], run.problems)
    chosen = [run.episode_files[i] for i in spread(len(run.episode_files), _STEPS)]
    for position, (step, path) in enumerate(chosen):
        left = most_trains - sum(e.kind is not EpisodeKind.RECOVERY for e in sample.trains)
        refs = _refs(path, run.problems)
        sample.train_total += len(refs)
        sample.train_steps.append(step)
        episodes = read_refs(refs[:_MOST_LINES], run.problems)
        sample.trains += whole_groups(episodes, left // (len(chosen) - position))
    return sample


def _refs(path: Path, problems: list[str]) -> list[LineRef]:
    try:
        return line_refs(path)
    except OSError as error:
        problems.append(f"{path.name} could not be read: {error.strerror or error}")
        return []


def whole_groups(episodes: Sequence[Episode], most: int, *, branches_each: int = 5) -> list[Episode]:
    """The first ``most`` episodes that are no branches, each followed by its first branches."""
    branches: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.kind is EpisodeKind.RECOVERY and episode.forked_from is not None:
            branches.setdefault(episode.forked_from.episode, []).append(episode)
    kept = [episode for episode in episodes if episode.kind is not EpisodeKind.RECOVERY][:most]
    return [shown for episode in kept for shown in (episode, *branches.get(episode.id, [])[:branches_each])]
