"""Unified diffs, made and applied by git in a folder of its own that is thrown away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.repo_repair.clones import git
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.tree import Tree, TreeError, clean


def make_patch(tree: Tree) -> str:
    """What an episode changed, as ``git apply`` takes it; empty if nothing."""
    if not tree.changes:
        return ""
    with _scratch(
        {path: tree.base.files[path] for path in tree.changes if path in tree.base.files}
    ) as folder:
        git(folder, "add", "-A", "-f")
        for path, text in tree.changes.items():
            place = folder / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(text.encode("utf-8", "surrogateescape"))
        if new := [path for path in tree.changes if path not in tree.base.files]:
            git(folder, "add", "-f", "-N", "--", *new)
        return git(folder, "diff", "--no-color", "--no-ext-diff").decode("utf-8", "replace")


def apply_patch(files: Mapping[str, File], patch: str) -> dict[str, str | None]:
    """Text of each file that ``patch`` changes, after it; None = it is gone. Raises ``EnvError`` if it does not fit."""
    if not patch.strip():
        return {}
    paths = _paths(patch)
    with _scratch(
        {path: files[path] for path in paths if path in files and files[path].mode != "link"}
    ) as folder:
        git(folder, "apply", "--whitespace=nowarn", "-", data=patch.encode("utf-8", "surrogateescape"))
        after: dict[str, str | None] = {}
        for path in paths:
            place = folder / path
            if place.is_symlink():
                raise EnvError(f"the patch makes {path} a link, which is not supported")
            exists = place.is_file()
            after[path] = place.read_bytes().decode("utf-8", "surrogateescape") if exists else None
    return {path: text for path, text in after.items() if text is not None or path in files}


def _paths(patch: str) -> list[str]:
    """Files that a patch names; those outside the tree are refused."""
    named: dict[str, None] = {}
    for line in patch.split("\n"):
        for mark in ("--- a/", "+++ b/", "rename from ", "rename to "):
            if line.startswith(mark):
                named[line[len(mark) :].split("\t")[0]] = None
    try:
        return [clean(path) for path in named]
    except TreeError as error:
        raise EnvError(f"the patch names a file outside the repository: {error}") from error


@contextmanager
def _scratch(files: Mapping[str, File]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="turnpoint-patch-") as name:
        folder = Path(name)
        git(folder, "init", "-q")
        for path, file in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.data)
            if file.mode == "run":
                place.chmod(0o755)
        yield folder
