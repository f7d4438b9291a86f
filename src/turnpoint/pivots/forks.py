"""Forks by hand: go on from a recorded turn with another model, an action, or a hint, and keep the branch.

Branches are written to ``NAME.forks.jsonl`` beside the file that holds their parent, where the inspector finds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from turnpoint.pivots.intervene import TakenTurn, adopt, prepare
from turnpoint.records import Episode, EpisodeKind, EpisodeReader, EpisodeWriter, RecordError
from turnpoint.rollouts import Rollouts, Start

SUFFIX = ".forks.jsonl"


def forks_file(parents: Path) -> Path:
    """Where branches of episodes in ``parents`` are kept."""
    return parents if parents.name.endswith(SUFFIX) else parents.with_name(parents.stem + SUFFIX)


def find_episode(files: Sequence[Path], wanted: str) -> tuple[Episode, Path]:
    """The episode called ``wanted`` (its id, or the end of it; branches only if no other ends so) and its file.

    Raises ``RecordError`` if there is none, if several ids end so, or if several files hold it.
    """
    exact, ending, branches = (defaultdict[str, set[Path]](set) for _ in range(3))
    for path in files:
        for episode in EpisodeReader(path, strict=False):
            if episode.id == wanted:
                exact[episode.id].add(path)
            elif episode.id.endswith(wanted):
                (branches if path.name.endswith(SUFFIX) else ending)[episode.id].add(path)
    found = exact or ending or branches
    if not found:
        raise RecordError(f"no episode is called '{wanted}'; turnpoint inspect shows the ids of a run")
    if len(found) > 1:
        raise RecordError(
            f"{len(found)} episodes end in '{wanted}': {', '.join(sorted(found)[:5])}; give more of the id"
        )
    ((name, paths),) = found.items()
    if len(paths) > 1:
        where = ", ".join(sorted(path.name for path in paths))
        raise RecordError(
            f"episode {name} is in {len(paths)} files: {where}; say which step is meant (--step)"
        )
    (path,) = paths
    return next(e for e in EpisodeReader(path, strict=False) if e.id == name), path


class ForkSession:
    """One branch in the making: taken turn by turn, then played to its end by the policy."""

    def __init__(self, rollouts: Rollouts, parent: Episode, turn: int, name: str) -> None:
        """``name`` tells the branch from others of its parent."""
        self.rollouts = rollouts
        self.parent = parent
        self.turn = turn
        self.name = name
        self.episode: Episode | None = None
        """What there is so far; ``stop`` is set when it is over."""

    async def open(self) -> Episode:
        """Bring the state back. The result has a ``stop`` if that failed or nothing can follow."""
        self.episode = await prepare(self.rollouts, self.parent, self.turn, name=self.name)
        return self.episode

    async def take(self, taken: TakenTurn) -> Episode:
        """Play one turn on."""
        now = self.episode
        assert now is not None
        if now.stop is not None:
            raise ValueError(f"the branch is over ({now.stop}); nothing can follow")
        after = await prepare(self.rollouts, now, len(now.turns), [taken], name=f"{len(now.turns)}")
        after.id = now.id
        self.episode = adopt(after, now)
        return self.episode

    async def finish(self, index: int = 0) -> Episode:
        """Let the policy play to the end; ``index`` names its random stream."""
        now = self.episode
        assert now is not None
        if now.stop is not None:
            return now
        played = await self.rollouts.play(
            now.task,
            index,
            start=Start(now, len(now.turns)),
            attempt=now.attempt,
            kind=EpisodeKind.REPLAY,
            name=f"{self.name}-of-{self.parent.id}",
        )
        return adopt(played, now)


def save_branch(branch: Episode, parents: Path, taken_ids: set[str]) -> Path:
    """Append a finished branch beside its parent under an id of its own; returns the file."""
    base, number = branch.id, 2
    while branch.id in taken_ids:
        branch.id, number = f"{base}-{number}", number + 1
    taken_ids.add(branch.id)
    path = forks_file(parents)
    with EpisodeWriter(path) as writer:
        writer.write(branch)
    return path


def branch_ids(parents: Path) -> set[str]:
    """Ids that branches beside ``parents`` have already."""
    path = forks_file(parents)
    return {episode.id for episode in EpisodeReader(path, strict=False)} if path.is_file() else set()
