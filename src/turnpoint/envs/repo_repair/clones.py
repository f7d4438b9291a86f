"""Files of a commit in a git clone on this machine."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.repo_repair.records import Clone
from turnpoint.envs.repo_repair.sandbox import File

_MOST_BYTES = 1 << 30


def read_clone(clone: Clone) -> dict[str, File]:
    """All files of the commit. Raises ``EnvError`` if the clone, the commit or git is missing."""
    archive = git(Path(clone.path), "archive", "--format=tar", clone.commit)
    if len(archive) > _MOST_BYTES:
        raise EnvError(f"commit {clone.commit} of '{clone.path}' is larger than {_MOST_BYTES >> 20} MiB")
    files: dict[str, File] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.issym():
                files[member.name] = File(member.linkname.encode("utf-8", "surrogateescape"), "link")
            elif member.isfile() and (content := tar.extractfile(member)) is not None:
                files[member.name] = File(content.read(), "run" if member.mode & 0o100 else "")
    return files


def git(folder: Path, *arguments: str, data: bytes = b"") -> bytes:
    """What a git command in ``folder`` writes. Raises ``EnvError`` with its message."""
    # Hooks and settings of the clone, or of the user, are none of this program's business.
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", f"safe.directory={folder}"]
    try:
        done = subprocess.run(
            ["git", *safe, "-C", str(folder), *arguments], input=data, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise EnvError("git is not installed (Debian, Ubuntu: apt-get install git)") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise EnvError(f"git {arguments[0]} in '{folder}' failed: {said}")
    return done.stdout
