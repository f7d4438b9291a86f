"""Take the games out of ALFWorld's released archive (or an unpacked one), and pin them by their hashes."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from turnpoint.envs.alfworld.games import FILE_NAME, MANIFEST, grammar_of, read_game, split_hash
from turnpoint.envs.protocol import EnvDataError

SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
TESTED = {
    "train": "1648d05633144f69ecba08ef5ce59400e1e347380ad43dd8f9b8cfe2afadb347",
    "valid_seen": "69a2c7b245569e505e0117189ef24865b54d5593d7e4b2808b6d79b4d62bbf38",
}
"""Hashes of the releases that the conformance of the native engine was measured on (3,553 and 140 games)."""
_LARGEST = 8 << 20
"""Bytes of one game file; released ones have less than a hundredth."""
_PART = re.compile(r"[\w.,+-]+")
_LEFT_OUT = ("movable", "Sliced")
"""Tasks that ALFWorld's own loader leaves out."""


def prepare_games(source: Path, folder: Path) -> dict[str, Any]:
    """Copy all playable games of ``source`` (a zip file or a folder) to ``folder/SPLIT/TASK/TRIAL/game.tw-pddl``.

    Gives counts and hashes by split, also written to ``folder/manifest.json``, where splits that were prepared before
    keep theirs; games that ALFWorld leaves out (unsolvable, movable receptacles, sliced objects) are counted.
    Raises ``EnvDataError`` if there is no game, one is damaged, or ``folder`` holds other games already.
    """
    hashes: dict[str, dict[str, str]] = {}
    grammars: Counter[str] = Counter()
    left_out = 0
    for name, raw in _files(source):
        split, inside = _place(name)
        document = read_game(raw, f"{source}: {name}")
        if document.get("solvable") is False or any(word in name for word in _LEFT_OUT):
            left_out += 1
            continue
        grammars[grammar_of(document, name)] += 1
        hashes.setdefault(split, {})[inside] = hashlib.sha256(raw).hexdigest()
        _write(folder / split / inside, raw)
    if not hashes:
        raise EnvDataError(f"{source}: holds no playable {FILE_NAME}; give ALFWorld's json_2.1.*_tw-pddl.zip")
    facts = _facts(source, folder, hashes, grammars, left_out)
    _refuse_strangers(folder, hashes)
    manifest = folder / MANIFEST
    others = json.loads(manifest.read_text())["splits"] if manifest.is_file() else {}
    pins = dict(sorted({**others, **facts["splits"]}.items()))
    manifest.write_text(json.dumps(facts | {"splits": pins}, indent=1) + "\n")
    return facts


def _refuse_strangers(folder: Path, hashes: dict[str, dict[str, str]]) -> None:
    """A split's pin is of what it was prepared from: another game in its folder would break it."""
    for split, names in hashes.items():
        for path in (folder / split).rglob(FILE_NAME):
            if path.relative_to(folder / split).as_posix() not in names:
                raise EnvDataError(f"{path} comes from somewhere else; choose an empty folder")


def _facts(
    source: Path,
    folder: Path,
    hashes: dict[str, dict[str, str]],
    grammars: Counter[str],
    left_out: int,
) -> dict[str, Any]:
    splits = {
        split: {
            "games": len(names),
            "sha256": split_hash(names),
            "tested": TESTED.get(split) == split_hash(names),
        }
        for split, names in sorted(hashes.items())
    }
    return {
        "folder": str(folder),
        "source": source.name,
        "source_sha256": _file_hash(source) if source.is_file() else None,
        "splits": splits,
        "grammar": dict(grammars),
        "left_out": left_out,
    }


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every game file."""
    if source.is_dir():
        for path in sorted(source.rglob(FILE_NAME)):
            yield path.relative_to(source.parent).as_posix(), path.read_bytes()
        return
    if not source.is_file():
        raise EnvDataError(f"{source}: there is no such file or folder")
    try:
        with zipfile.ZipFile(source) as archive:
            for member in sorted(archive.infolist(), key=lambda info: info.filename):
                if PurePosixPath(member.filename).name == FILE_NAME:
                    if member.file_size > _LARGEST:
                        raise EnvDataError(f"{source}: {member.filename} is too large for a game")
                    yield member.filename, archive.read(member)
    except zipfile.BadZipFile as error:
        raise EnvDataError(f"{source}: is not a whole zip file ({error}); fetch it again") from error


def _place(name: str) -> tuple[str, str]:
    """Split, and path below it. Raises ``EnvDataError`` for names that lead elsewhere."""
    parts = PurePosixPath(name).parts
    found = [number for number, part in enumerate(parts) if part in SPLITS]
    if not found:
        raise EnvDataError(f"{name}: lies in none of the splits {', '.join(SPLITS)}")
    inside = parts[found[-1] + 1 :]
    if len(inside) < 2 or any(part in (".", "..") or not _PART.fullmatch(part) for part in inside):
        raise EnvDataError(f"{name}: is not the name of a game below {parts[found[-1]]}")
    return parts[found[-1]], "/".join(inside)


def _write(path: Path, raw: bytes) -> None:
    if path.is_file() and path.read_bytes() != raw:
        raise EnvDataError(f"{path} exists already and is another game; choose an empty folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


def _file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
