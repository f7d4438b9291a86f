"""What commands read: run folders, files of episodes, and trajectories of other tools."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from turnpoint.cli.common import console

if TYPE_CHECKING:
    from turnpoint.exchange import ExchangeReport
    from turnpoint.inspector.store import Source
    from turnpoint.pivots.recovery import Mistake
    from turnpoint.records import Episode


@contextmanager
def opened(target: Path, name: str | None = None) -> Iterator[tuple[Path, ExchangeReport]]:
    """``target`` as something that holds episodes, converted if need be, and what was lost in converting."""
    from turnpoint.exchange import ExchangeReport, native_target

    report = ExchangeReport()
    with native_target(target, report, name=name) as path:
        yield path, report


def show_left_out(left_out: Mapping[str, int]) -> None:
    """How many episodes hold no mistake to play on from, by reason."""
    if left_out:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in left_out.items())
        show_notes([f"episodes without a mistake to play on from: {reasons}"])


def refuse_taken(path: Path | None, option: str) -> None:
    """Called before anything is read or played: raise ``ConfigError`` if ``path`` cannot become a new file.

    What exists is never overwritten or added to: it may be the very file that is read.
    """
    from turnpoint.config import ConfigError

    if path is None:
        return
    if os.path.lexists(path):
        raise ConfigError(f"{option}: {path} exists already; name another file")
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        reason = "cannot be written" if above.is_dir() else "is not a folder"
        raise ConfigError(f"{option}: {path} cannot be made, since {above} {reason}; name another file")


def show_notes(notes: Sequence[str]) -> None:
    """Remarks on stderr; text of others cannot change the terminal."""
    from turnpoint.inspector.text import clip_note

    for note in notes[:20]:
        console().print(f"note: {clip_note(note, 500)}", markup=False, highlight=False)
    if len(notes) > 20:
        console().print(f"note: … and {len(notes) - 20} more", markup=False, highlight=False)


def sources_of(target: Path, part: str) -> list[Source]:
    """Episode files of a target; ``part``: auto (evaluations where there are any), eval, train, all.

    Branches forked by hand are left out unless ``target`` is their file. Raises ``RecordError`` if nothing is left.
    """
    from turnpoint.inspector.store import find_sources
    from turnpoint.records import RecordError

    found = [s for s in find_sources(target) if not _forked(s, target)]
    if part == "auto":
        part = "eval" if any(s.origin == "eval" for s in found) else "all"
    chosen = [s for s in found if part == "all" or s.origin in (part, "file")]
    if not chosen:
        raise RecordError(f"{target} has no episodes of part '{part}'; use --part all")
    return chosen


def refuse_empty(target: Path, notes: Sequence[str]) -> NoReturn:
    """Raise ``RecordError`` with what is known of the reasons: there is no episode to speak of."""
    from turnpoint.records import RecordError

    raise RecordError(f"{target} gives no episode: {'; '.join(notes[:3]) or 'it is empty'}")


def branches_by_hand(target: Path) -> int:
    """Lines of files with branches beside ``target``, which ``sources_of`` leaves out."""
    from turnpoint.inspector.store import find_sources

    return sum(1 for _ in _all_lines([s for s in find_sources(target) if _forked(s, target)]))


def _forked(source: Source, target: Path) -> bool:
    return source.path.name.endswith(".forks.jsonl") and source.path != target


def mistakes_of(path: Path, limit: int | None) -> tuple[list[Mistake], dict[str, int]]:
    """First mistakes of recorded episodes, at most ``limit``, and how many episodes hold none, by reason.

    Raises ``RecordError`` if there is no mistake.
    """
    from turnpoint.pivots.recovery import first_mistakes
    from turnpoint.records import EpisodeReader, RecordError

    left_out: Counter[str] = Counter()
    reader = EpisodeReader(path)
    found = first_mistakes(reader, left_out=left_out)
    if reader.report.problems:
        left_out["unfinished last line"] = len(reader.report.problems)
    if not found:
        reasons = (
            ", ".join(f"{reason}: {count}" for reason, count in left_out.items()) or "it holds no episodes"
        )
        raise RecordError(f"{path} holds no failed episode with an oracle pivot to play on from ({reasons})")
    return found[:limit], dict(left_out)


def environment(text: str) -> Any:
    """The suite of an environment kind, of a recipe, or of a run folder."""
    from turnpoint.cli.recipes import find_recipe
    from turnpoint.config import ConfigError, load_yaml
    from turnpoint.envs import env_registry

    path = Path(text)
    if (path / "config.yaml").is_file():
        path = path / "config.yaml"
    if path.is_file():
        return env_registry.parse(load_yaml(path).get("env")).build()
    try:
        return env_registry.parse({"kind": text}).build()
    except ConfigError:
        try:
            recipe = find_recipe(text)
        except ConfigError:
            recipe = None
        if recipe is None:
            raise
        return env_registry.parse(load_yaml(recipe).get("env")).build()


class EpisodeStream:
    """Episodes of many files, one at a time; ``problems`` fills while it is read."""

    def __init__(self, sources: Sequence[Source], progress: Any = None) -> None:
        self.sources = sources
        self.problems: list[str] = []
        self.unreadable = 0
        self.read = 0
        self.source: Source | None = None
        """Where the episode that was given out last comes from."""
        self._progress = progress

    def __iter__(self) -> Iterator[Episode]:
        from turnpoint.records import EpisodeReader

        for source in self.sources:
            self.source = source
            reader = EpisodeReader(source.path, strict=False)
            for episode in reader:
                episode.step = source.step or episode.step
                self.read += 1
                if self._progress is not None and self.read % 256 == 0:
                    self._progress(self.read)
                yield episode
            self.unreadable += len(reader.report.problems)
            self.problems += reader.report.problems[: max(0, 200 - len(self.problems))]


def spread(sources: Sequence[Source], most: int, limit: int | None = None) -> list[Episode]:
    """At most ``most`` episodes from evenly spaced lines over all files, or over the first ``limit`` lines.

    Only these lines are parsed.
    """
    import json

    from turnpoint.records import episode_from_dict

    count = sum(1 for _ in islice(_all_lines(sources), limit))
    every = max(1, -(-count // most))
    found: list[Episode] = []
    for line in islice(_all_lines(sources), 0, count, every):
        try:
            found.append(episode_from_dict(json.loads(line)))
        except (ValueError, RecursionError):
            continue  # counted when the stream meets it
    return found


def _all_lines(sources: Sequence[Source]) -> Iterator[bytes]:
    for source in sources:
        with source.path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield line
