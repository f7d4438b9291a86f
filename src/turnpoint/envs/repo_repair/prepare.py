"""``turnpoint envs prepare repo_repair``: packages with injected faults, or SWE-bench instances, as a file of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import NonNegativeInt, PositiveInt, ValidationError

from turnpoint.config import Settings, explain
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.repo_repair.builder import BUILDER_VERSION, build
from turnpoint.envs.repo_repair.records import Clone, Record, write_tasks
from turnpoint.envs.repo_repair.runner import Runner
from turnpoint.envs.repo_repair.sandbox import File, Sandbox
from turnpoint.envs.repo_repair.settings import SandboxSettings

_MARK = "=== "
_LEFT_OUT = frozenset(
    {".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", ".tox", "build", "dist"}
)
_LARGEST = 1 << 20
_MOST_FILES = 2000


class BuildSettings(Settings):
    """A file ``*.yaml`` as the source says more than a folder can."""

    sources: tuple[str, ...] = ()
    """Folders, bundles and names of installed distributions."""
    requires: tuple[str, ...] = ()
    """Installed distributions that the tests need besides pytest."""
    faults: PositiveInt = 10
    """Most tasks of a package."""
    seed: NonNegativeInt = 0
    """Another value gives other faults."""
    swebench: Path | None = None
    """SWE-bench instances (``.json``, ``.jsonl``, ``.parquet``), instead of ``sources``."""
    clones: Path | None = None
    """Folder with a git clone of each of their repositories, as ``owner__name`` or ``name``."""
    split: Literal["train", "valid", "divided"] = "valid"
    """Split of the instances; ``divided``: a fifth of them, by a hash, is ``valid``."""
    sandbox: SandboxSettings = SandboxSettings()
    """Where tests run while faults are tried."""


def prepare(source: Path, folder: Path) -> dict[str, Any]:
    """Write ``folder/tasks.jsonl``; gives counts and the hash. Raises ``EnvDataError`` if the source is unusable.

    ``source``: a folder with one package and its tests or with several in folders of their own, a bundle ``*.txt``, the
    name of an installed distribution that brings its tests, or a ``*.yaml`` with ``BuildSettings``.
    """
    settings = _settings(source)
    out = folder / "tasks.jsonl"
    if settings.swebench is not None:
        from turnpoint.envs.repo_repair.swebench import instances_to_tasks

        return instances_to_tasks(settings.swebench, settings.clones, out, settings.split)
    packages = dict(package for name in settings.sources for package in _packages(name))
    if not packages:
        raise EnvDataError(f"'{source}' names no package; give sources, or swebench and clones")
    runner = Runner(Sandbox(settings.sandbox, settings.requires), remember=0)
    records: list[Record] = []
    counts: dict[str, str] = {}
    for name, files in packages.items():
        built = build(
            name, files, runner, count=settings.faults, seed=settings.seed, requires=settings.requires
        )
        records += built.records
        counts[name] = f"{len(built.records)} of {built.tried} faults tried, {built.passing} tests"
    if not records:
        raise EnvDataError("no fault that was tried makes some tests fail and leaves others passing")
    header = {"builder": BUILDER_VERSION, "seed": settings.seed, "faults": settings.faults}
    used = {record.repository for record in records}
    repositories: dict[str, dict[str, File] | Clone] = {n: f for n, f in packages.items() if n in used}
    digest = write_tasks(out, header, repositories, records)
    return {"file": str(out), "sha256": digest, "tasks": len(records), "packages": counts}


def _settings(source: Path) -> BuildSettings:
    if source.suffix not in (".yaml", ".yml"):
        return BuildSettings(sources=(str(source),))
    try:
        return BuildSettings.model_validate(yaml.safe_load(source.read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise EnvDataError(f"'{source}' cannot be read: {error}") from error
    except ValidationError as error:
        raise EnvDataError(f"'{source}': {explain(error)}") from error


def _packages(source: str) -> Iterator[tuple[str, dict[str, File]]]:
    path = Path(source).expanduser()
    if path.is_file():
        yield path.stem, unbundle(path)
    elif path.is_dir():
        found = False
        for place in [path, *sorted(path.iterdir())]:
            if place.is_dir() and _is_project(place):
                found = True
                yield place.name, _folder(place)
                if place == path:
                    return
            elif place.suffix == ".txt" and place.is_file():
                found = True
                yield place.stem, unbundle(place)
        if not found:
            raise EnvDataError(f"'{path}' has no tests, and no folder in it has (test_*.py or *_test.py)")
    else:
        yield source, _distribution(source)


def _is_project(folder: Path) -> bool:
    """Whether a folder is one package with its tests, and not a folder of such."""
    marks = ("pyproject.toml", "setup.py", "setup.cfg", "tests", "test")
    return any((folder / mark).exists() for mark in marks) or any(map(_is_test, folder.glob("*.py")))


def _is_test(file: Path) -> bool:
    return file.name.startswith("test_") or file.name.endswith("_test.py")


def unbundle(path: Path) -> dict[str, File]:
    """Files of a bundle: after each line ``=== PATH`` stands the text of a file."""
    files: dict[str, list[str]] = {}
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith(_MARK):
            files[line[len(_MARK) :].strip()] = text = []
        elif files:
            text.append(line)
    if not files:
        raise EnvDataError(f"'{path}' is no bundle: it has no line '{_MARK}PATH'")
    return {name: File("".join(lines).encode()) for name, lines in files.items()}


def _folder(folder: Path) -> dict[str, File]:
    files: dict[str, File] = {}
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        hidden = any(part in _LEFT_OUT or part.endswith(".egg-info") for part in parts)
        if hidden or file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST:
            continue
        files["/".join(parts)] = File(file.read_bytes(), "run" if file.stat().st_mode & 0o100 else "")
        if len(files) > _MOST_FILES:
            raise EnvDataError(f"'{folder}' has more than {_MOST_FILES} files; give a smaller package")
    return files


def _distribution(name: str) -> dict[str, File]:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise EnvDataError(
            f"'{name}' is no file, no folder, and no installed distribution; give one of them"
        ) from None
    files: dict[str, File] = {}
    for entry in distribution.files or ():
        top = entry.parts[0]
        if top == ".." or top.endswith(".dist-info") or "__pycache__" in entry.parts:
            continue
        place = Path(str(entry.locate()))
        if place.is_file() and place.stat().st_size <= _LARGEST:
            files["/".join(entry.parts)] = File(place.read_bytes())
    if not any(_is_test(Path(path)) for path in files):
        raise EnvDataError(
            f"distribution '{name}' is installed without its tests; give a folder with its source"
        )
    return files
