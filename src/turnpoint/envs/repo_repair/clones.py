"""Files of a commit in a git clone on this machine."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.repo_repair.records import Clone
from turnpoint.envs.repo_repair.sandbox import File

_MOST_BYTES = 1 << 30
_MODES = {b"100755": "run", b"120000": "link"}


class _Blob(NamedTuple):
    """One file of a commit, before its content is read."""

    path: str
    mode: str
    name: bytes
    """Of the content, in git's store."""
    size: int


def read_clone(clone: Clone) -> dict[str, File]:
    """All files of the commit as they were committed; submodules are not among them.

    Raises ``EnvError`` if the clone, the commit or git is missing.
    """
    # Not git archive: it leaves out and rewrites files as the attributes of the repository say (export-ignore).
    folder = Path(clone.path)
    listed = git(folder, "ls-tree", "-r", "-l", "-z", "--full-tree", clone.commit)
    blobs = [blob for line in listed.split(b"\0") if (blob := _blob(line)) is not None]
    if sum(blob.size for blob in blobs) > _MOST_BYTES:
        raise EnvError(f"commit {clone.commit} of '{clone.path}' is larger than {_MOST_BYTES >> 20} MiB")
    asked = b"".join(blob.name + b"\n" for blob in blobs)
    answers = io.BytesIO(git(folder, "cat-file", "--batch", data=asked))
    files: dict[str, File] = {}
    for blob in blobs:
        if answers.readline().split()[1:2] != [b"blob"]:
            raise EnvError(f"commit {clone.commit} of '{clone.path}' is not whole: {blob.path} is missing")
        files[blob.path] = File(answers.read(blob.size), blob.mode)
        answers.read(1)  # a line feed ends each content
    return files


def _blob(line: bytes) -> _Blob | None:
    """From a line of ``git ls-tree``; None for submodules and after the last line."""
    facts, _, path = line.partition(b"\t")
    mode, kind, name, size = facts.split() or [b""] * 4
    if kind != b"blob":
        return None
    known = int(size) if size.isdigit() else 0  # "BAD" where the content is missing
    return _Blob(path.decode("utf-8", "surrogateescape"), _MODES.get(mode, ""), name, known)


def git(folder: Path, *arguments: str, data: bytes = b"") -> bytes:
    """What a git command in ``folder`` writes. Raises ``EnvError`` with its message."""
    # Hooks and settings of the clone, or of the user, are none of this program's business.
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", f"safe.directory={folder}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        done = subprocess.run(
            ["git", *safe, "-C", str(folder), *arguments],
            input=data,
            capture_output=True,
            check=False,
            env=environment,
        )
    except FileNotFoundError:
        raise EnvError("git is not installed (Debian, Ubuntu: apt-get install git)") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise EnvError(f"git {arguments[0]} in '{folder}' failed: {said}")
    return done.stdout
