"""Episodes of a run or a file, in pieces that are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnpoint.inspector.folder import LineRef, line_refs, step_files
from turnpoint.inspector.text import clip_note
from turnpoint.inspector.tokens import TokenTexts, token_texts_of_run
from turnpoint.inspector.views import Limits, episode_view, summary_view
from turnpoint.records import RecordError

PAGE_LIMITS = Limits(text=16_000, tokens=1_200, turns=400, prompts=True)
MOST_EPISODES = 20_000
_PIECE_BYTES = 1_000_000
_PIECE_EPISODES = 64

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A file of episodes: ``origin`` is ``eval``, ``train`` or ``file``."""

    origin: str
    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring episodes of one file that are loaded together."""

    name: str
    source: Source
    refs: tuple[LineRef, ...]


@dataclass(slots=True)
class Plan:
    """All pieces of what is inspected, newest steps first where not everything fits."""

    title: str
    pieces: list[Piece] = field(default_factory=list)
    texts: TokenTexts | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def episodes(self) -> int:
        """Lines in all pieces."""
        return sum(len(piece.refs) for piece in self.pieces)


def find_sources(target: Path) -> list[Source]:
    """Episode files of a run folder (evaluations, then training), of any folder, or the file itself.

    Raises ``RecordError`` if there is none.
    """
    if target.is_file():
        return [Source("file", 0, path) for path in (target, *_forks(target))]
    if not target.is_dir():
        raise RecordError(f"{target} does not exist; name a run folder or a file of episodes")
    found = [
        Source(origin, step, part)
        for origin, folder in (("eval", "eval"), ("train", "episodes"))
        for step, path in step_files(target / folder)
        for part in (path, *_forks(path))
    ]
    if not found:
        found = [Source("file", 0, p) for p in sorted(target.glob("*.jsonl")) if p.name != "metrics.jsonl"]
    if not found:
        raise RecordError(
            f"{target} holds no episodes; name a run folder that has eval/ or episodes/, or a file of episodes"
        )
    return found


def _forks(path: Path) -> list[Path]:
    """Branches that were forked by hand lie beside their parents."""
    beside = path.with_name(f"{path.stem}.forks.jsonl")
    return [beside] if beside.is_file() else []


def plan(target: Path, *, most: int = MOST_EPISODES, texts: TokenTexts | None = None) -> Plan:
    """Find every episode under ``target`` without parsing one; at most ``most``, the newest files first."""
    sources = find_sources(target)
    made = Plan(target.resolve().name, texts=texts or _texts(target))
    refs = {source.path: line_refs(source.path) for source in sources}
    room, kept = most, dict[Path, list[LineRef]]()
    for source in sorted(sources, key=lambda s: (s.step, s.origin == "eval"), reverse=True):
        kept[source.path] = refs[source.path][: max(0, room)]
        room -= len(kept[source.path])
    left_out = sum(map(len, refs.values())) - sum(map(len, kept.values()))
    if left_out:
        made.notes.append(
            f"{left_out:,} episodes of earlier steps are left out; the newest {most:,} are here (--most shows more)"
        )
    for number, source in enumerate(sources):
        made.pieces += _pieces(number, source, kept[source.path])
    return made


def _texts(target: Path) -> TokenTexts | None:
    """The tokenizer of the run that ``target`` is, or lies in."""
    folder = target.resolve()
    for candidate in (folder, folder.parent, folder.parent.parent):
        if candidate.is_dir() and (texts := token_texts_of_run(candidate)) is not None:
            return texts
    return None


def _pieces(number: int, source: Source, refs: Sequence[LineRef]) -> Iterator[Piece]:
    """Cut a file's lines into pieces of bounded size; names stay the same when lines are appended."""
    part: list[LineRef] = []
    count = 0
    for ref in refs:
        full = len(part) >= _PIECE_EPISODES or sum(r.length for r in part) + ref.length > _PIECE_BYTES
        if part and full:
            yield Piece(f"{number}-{count}", source, tuple(part))
            part, count = [], count + 1
        part.append(ref)
    if part:
        yield Piece(f"{number}-{count}", source, tuple(part))


@dataclass(slots=True)
class Loaded:
    """What was read of a piece."""

    summaries: list[Json]
    details: list[Json | None]
    """One for each line of the piece; None where it could not be read."""
    problems: list[str]


def load(
    piece: Piece, texts: TokenTexts | None, limits: Limits = PAGE_LIMITS, *, details: bool = True
) -> Loaded:
    """Parse a piece into list entries (``o`` origin, ``c`` piece, ``p`` place in it) and details."""
    loaded = Loaded([], [], [])
    for place, ref in enumerate(piece.refs):
        try:
            episode = ref.read()
        except (ValueError, RecursionError, OSError) as error:
            loaded.problems.append(f"{ref.path.name}:{ref.number}: {error}")
            loaded.details.append(None)
            continue
        loaded.summaries.append(
            summary_view(episode, limits)
            | {
                "o": piece.source.origin,
                "c": piece.name,
                "p": place,
                "step": piece.source.step or episode.step,
                "title": _title(episode.task.instruction or episode.task.id),
            }
        )
        loaded.details.append(episode_view(episode, limits, texts) if details else None)
    return loaded


def _title(text: str) -> str:
    return clip_note(" ".join(text[:400].split()), 160)


Progress = Callable[[int, int], None]
"""Called with episodes done and episodes in all."""
