"""Episodes as JSON lines: one line is one episode; streaming, and safe against a torn last line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from turnpoint.records.codec import RecordError, episode_from_dict, episode_to_dict
from turnpoint.records.episode import Episode


class EpisodeWriter:
    """Appends episodes to a file, one flushed line each; a torn last line of an earlier crash is cut off first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.repaired_bytes = _cut_torn_line(path)
        """Bytes of an unfinished last line that were moved to ``<name>.torn`` when the file was opened."""
        self._file = path.open("a", encoding="utf-8")

    def write(self, episode: Episode) -> None:
        """Append one episode."""
        self._file.write(json.dumps(episode_to_dict(episode), ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cut_torn_line(path: Path) -> int:
    """Move an unfinished last line to ``<name>.torn`` so that appending cannot corrupt the next record."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    with path.open("rb+") as file:
        size = file.seek(0, 2)
        end, tail = size, b""
        while end > 0 and b"\n" not in tail:
            start = max(0, end - 65536)
            file.seek(start)
            tail = file.read(end - start) + tail
            end = start
        torn = tail[tail.rfind(b"\n") + 1 :]
        if not torn:
            return 0
        with path.with_name(path.name + ".torn").open("ab") as kept:
            kept.write(torn + b"\n")
        file.truncate(size - len(torn))
    return len(torn)


@dataclass(slots=True)
class ReadReport:
    """What a reader met."""

    episodes: int = 0
    problems: list[str] = field(default_factory=list)
    """One sentence for each line that was skipped, with file and line number."""


class EpisodeReader:
    """Streams episodes from a JSONL file in flat memory.

    A torn last line is reported and skipped. Another unreadable line raises ``RecordError``, or is
    reported and skipped with ``strict=False``.
    """

    def __init__(self, path: Path, *, strict: bool = True) -> None:
        self.path = path
        self.strict = strict
        self.report = ReadReport()

    def __iter__(self) -> Iterator[Episode]:
        self.report = ReadReport()
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    episode = self._parse(line, number)
                    if episode is not None:
                        self.report.episodes += 1
                        yield episode

    def _parse(self, line: bytes, number: int) -> Episode | None:
        whole = False
        try:
            data = json.loads(line)
            whole = True
            return episode_from_dict(data)
        except (ValueError, RecursionError) as error:
            torn = not whole and not line.endswith(b"\n")
            problem = f"{self.path}:{number}: {'unfinished last line' if torn else error}"
            if not torn and self.strict:
                raise RecordError(problem) from error
            self.report.problems.append(problem)
            return None


def read_episodes(path: Path, *, strict: bool = True) -> list[Episode]:
    """All episodes of a file at once; see ``EpisodeReader`` for how bad lines are handled."""
    return list(EpisodeReader(path, strict=strict))
