"""The inspector as a page: whole in one file, or with data files beside it that are loaded when needed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnpoint.inspector.assets import bundle, content_policy, templates, write_atomically
from turnpoint.inspector.store import Piece, Plan, Progress, load
from turnpoint.inspector.text import clip_note, script_json
from turnpoint.records import RecordError

_STYLE = ("base.css", "episode.css", "inspector.css")
_SCRIPT = (
    "core.js",
    "strip.js",
    "card.js",
    "prompt.js",
    "data.js",
    "state.js",
    "list.js",
    "group.js",
    "compare.js",
    "overview.js",
    "detail.js",
    "keys.js",
    "inspector.js",
)
_INLINE_CHARACTERS = 3_000_000
"""Details up to this size stay inside the page."""
_DATA_FILE = re.compile(r"[0-9]+-[0-9]+\.js")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A page that was written."""

    page: Path
    data: Path | None
    """Folder of data files, None if everything is in the page."""
    episodes: int
    notes: list[str]
    """What was left out or could not be read."""


def render_page(
    plan: Plan, summaries: Sequence[Json], problems: Sequence[str], details: Json | None, base: str
) -> str:
    """The page's text. ``details``: by piece name, or None if they lie in data files under ``base``."""
    script, style = bundle(_SCRIPT), bundle(_STYLE)
    notes = [*plan.notes, *problems[:20]]
    if len(problems) > 20:
        notes.append(f"{len(problems) - 20:,} more lines could not be read")
    data = {"episodes": summaries, "base": base}
    return (
        templates()
        .get_template("inspector.html.j2")
        .render(
            title=clip_note(plan.title, 120),
            policy=content_policy(script, style, loads_data=details is None),
            script=script,
            style=style,
            notes=[clip_note(note, 400) for note in notes],
            data=script_json(data),
            details=None if details is None else script_json(details),
        )
    )


def data_file(piece: str, details: Sequence[Json | None]) -> str:
    """A script that hands over the details of a piece; a string, as parsing JSON is faster and safer than code."""
    return f"TP.receive({script_json(piece)},{script_json(json.dumps(details, separators=(',', ':')))});\n"


def write_page(plan: Plan, out: Path, progress: Progress | None = None) -> Written:
    """Write the page to ``out``; large runs get a folder ``<name>_data`` beside it.

    Raises ``RecordError``, and writes nothing, if there is no episode to show.
    """
    folder = out.with_name(f"{out.stem}_data")
    writer = _Writer(folder)
    summaries: list[Json] = []
    problems: list[str] = []
    done = 0
    for piece in plan.pieces:
        loaded = load(piece, plan.texts)
        summaries += loaded.summaries
        problems += loaded.problems
        writer.add(piece, loaded.details)
        done += len(piece.refs)
        if progress is not None:
            progress(done, plan.episodes)
    if not summaries:
        found = [*plan.notes, *problems]
        raise RecordError(
            f"there is no episode to show; {found[0] if found else 'nothing was recorded there'}"
        )
    inline = writer.finish()
    write_atomically(out, render_page(plan, summaries, problems, inline, f"{folder.name}/"))
    return Written(out, None if inline is not None else folder, len(summaries), [*plan.notes, *problems])


class _Writer:
    """Keeps details in memory until they are too many for one page, then writes data files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, list[Json | None]] | None = {}
        self._size = 0
        self._written: set[str] = set()

    def add(self, piece: Piece, details: list[Json | None]) -> None:
        """Take the details of a piece."""
        if self._kept is None:
            self._write(piece.name, details)
            return
        self._kept[piece.name] = details
        self._size += len(json.dumps(details))
        if self._size > _INLINE_CHARACTERS:
            for name, earlier in self._kept.items():
                self._write(name, earlier)
            self._kept = None

    def _write(self, name: str, details: list[Json | None]) -> None:
        write_atomically(self._folder / f"{name}.js", data_file(name, details))
        self._written.add(f"{name}.js")

    def finish(self) -> dict[str, list[Json | None]] | None:
        """Remove data files of an earlier page; returns the details if they go into the page."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if _DATA_FILE.fullmatch(path.name) and path.name not in self._written:
                    path.unlink()
            if not any(self._folder.iterdir()):
                shutil.rmtree(self._folder)
        return self._kept
