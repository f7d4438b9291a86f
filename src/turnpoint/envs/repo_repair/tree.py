"""Files of a repository in memory, changed without touching the ones before: a snapshot is a reference."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePosixPath

from turnpoint.envs.repo_repair.sandbox import File

MOST_FILES = 50
"""Files an episode may change."""
MOST_BYTES = 1 << 20
"""Largest file an episode may write."""


class TreeError(ValueError):
    """A file cannot be read or changed; the message is for the agent."""


class Repository:
    """The files of one commit, shared by all episodes that start there."""

    def __init__(self, name: str, files: Mapping[str, File]) -> None:
        self.name, self.files = name, dict(sorted(files.items()))
        digest = hashlib.sha256()
        for path, file in self.files.items():
            digest.update(f"{path}\0{file.mode}\0{len(file.data)}\0".encode() + file.data)
        self.sha256 = digest.hexdigest()


class Tree:
    """A repository with the changes of an episode; immutable."""

    def __init__(self, base: Repository, changes: Mapping[str, str | None] | None = None) -> None:
        """``changes``: new text by path; None = the file is gone. What equals the base is no change."""
        self.base = base
        self.changes = {
            path: text
            for path, text in sorted((changes or {}).items())
            if (text is not None or path in base.files) and not self._same(path, text)
        }

    def _same(self, path: str, text: str | None) -> bool:
        file = self.base.files.get(path)
        return file is not None and text is not None and file.data == text.encode("utf-8", "surrogateescape")

    @cached_property
    def key(self) -> str:
        """Equal for equal contents."""
        digest = hashlib.blake2b(self.base.sha256.encode(), digest_size=16)
        for path, text in self.changes.items():
            data = b"-" if text is None else b"+" + text.encode("utf-8", "surrogateescape")
            digest.update(f"{path}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    @property
    def paths(self) -> list[str]:
        """All files, sorted."""
        kept = {path for path in self.base.files if self.changes.get(path, "") is not None}
        return sorted(kept | {path for path, text in self.changes.items() if text is not None})

    def text(self, path: str) -> str:
        """Text of a file. Raises ``TreeError`` if there is none, or it is no text."""
        path = clean(path)
        if path in self.changes:
            if (changed := self.changes[path]) is not None:
                return changed
        elif (file := self.base.files.get(path)) is not None:
            if file.mode == "link" or b"\0" in file.data:
                raise TreeError(f"{path} is not a text file.")
            return file.data.decode("utf-8", "surrogateescape")
        raise TreeError(f"There is no file {path}.")

    def lines(self, path: str) -> list[str]:
        """Lines of a text file without their ends."""
        return self.text(path).split("\n")[: -1 if self.text(path).endswith("\n") else None]

    def write(self, path: str, text: str | None) -> Tree:
        """A tree with ``path`` holding ``text``, or without it. Raises ``TreeError`` for what may not be written."""
        path = clean(path)
        file = self.base.files.get(path)
        if file is not None and file.mode == "link":
            raise TreeError(f"{path} is a link; change the file it points to.")
        if text is not None and len(text) > MOST_BYTES:
            raise TreeError(f"{path} would be larger than {MOST_BYTES} characters.")
        if text is not None:
            self._refuse_clash(path)
        changed = Tree(self.base, {**self.changes, path: text})
        if len(changed.changes) > MOST_FILES:
            raise TreeError(f"More than {MOST_FILES} files would be changed.")
        return changed

    def _refuse_clash(self, path: str) -> None:
        """A file cannot lie inside another one, nor where a folder is."""
        paths = set(self.paths)
        above = {str(parent) for parent in PurePosixPath(path).parents}
        if above & paths or any(other.startswith(f"{path}/") for other in paths):
            raise TreeError(f"{path} cannot be a file: its name clashes with another one's.")

    def restored(self, path: str) -> Tree:
        """A tree with ``path`` as in the base."""
        return Tree(self.base, {other: text for other, text in self.changes.items() if other != path})

    def files(self) -> dict[str, File]:
        """Everything, for a sandbox."""
        found = dict(self.base.files)
        for path, text in self.changes.items():
            if text is None:
                found.pop(path, None)
            else:
                mode = found[path].mode if path in found else ""
                found[path] = File(text.encode("utf-8", "surrogateescape"), mode)
        return found


def clean(path: str) -> str:
    """A path inside the tree in one spelling. Raises ``TreeError`` for any other."""
    path = path.strip()
    pure = PurePosixPath(path)
    parts = [part for part in pure.parts if part != "."]
    unfit = pure.is_absolute() or ".." in parts or ".git" in parts or len(path) > 300
    if unfit or not parts or not path.isprintable():
        raise TreeError("Give the path of a file inside the repository, such as src/module.py.")
    return "/".join(parts)
