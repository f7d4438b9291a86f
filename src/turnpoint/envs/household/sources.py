"""Where household games come from: the generator, or a folder of released files."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from turnpoint.envs.household.game import Game
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.index import load_game
from turnpoint.envs.household.problem import GameFileError, parse_document, parse_header
from turnpoint.envs.household.settings import HouseholdSettings
from turnpoint.envs.household.text import task_line
from turnpoint.envs.household.vocabulary import generated_texts, sentence_texts
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import SeededTasks, seed_of
from turnpoint.records import Task

logger = logging.getLogger(__name__)

GENERATOR_VERSION = 1
"""Part of the hash of generated games; raised whenever a seed gives another game."""
FILE_NAME = "game.tw-pddl"
_ENV = "household"


class GameSource(Protocol):
    """Tasks and their games."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid``."""

    def load(self, task: Task) -> Game:
        """The game of one of these tasks; raises ``EnvDataError`` for any other."""

    def header(self) -> dict[str, Any]:
        """Facts for the run header."""

    def vocabulary_texts(self) -> Iterable[str]:
        """Strings with every word of the games."""


class GeneratedGames:
    """Games drawn from seeds; the splits are disjoint ranges of seeds and share no game."""

    def __init__(self, settings: HouseholdSettings) -> None:
        """Raises ``EnvDataError`` if the settings allow no game of some task type."""
        self.generator = Generator(settings.generator)
        # A task is usually played right after it was drawn.
        self._game = functools.lru_cache(maxsize=256)(self.generator.game)
        self.counts = {"train": settings.train_tasks, "valid": settings.valid_tasks}
        self.sha256 = _fingerprint(settings)
        for seed in range(len(settings.generator.task_types)):
            self.generator.game(seed)

    def tasks(self, split: str) -> Sequence[Task]:
        """Drawn when they are asked for."""
        return SeededTasks(split, self.counts[split], self.task)

    def task(self, split: str, number: int) -> Task:
        """Task ``number`` of a split."""
        seed = seed_of(split, number)
        data: dict[str, Any] = {"seed": seed, "games": self.sha256}
        if self.generator.settings.temptations:
            data["tempting"] = self.generator.tempting(seed)
        return Task(
            id=f"{split}-{number:05d}",
            env=_ENV,
            instruction=task_line(self._game(seed)),
            type=self.generator.kind(seed),
            seed=seed,
            data=data,
        )

    def load(self, task: Task) -> Game:
        """Draw the game again; refused if the task was made with other generator settings."""
        seed, games = task.data.get("seed"), task.data.get("games")
        if not isinstance(seed, int) or games != self.sha256:
            raise EnvDataError(
                f"task {task.id} was generated with other settings or another version (games {games}, here "
                f"{self.sha256}); use the env section of the run it comes from"
            )
        return self._game(seed)

    def header(self) -> dict[str, Any]:
        """Settings, counts and the hash that names this set of games."""
        settings = self.generator.settings.model_dump(mode="json")
        return {
            "games": "generated",
            "generator": settings,
            "tasks": dict(self.counts),
            "sha256": self.sha256,
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Closed by construction."""
        return generated_texts(self.generator)


class FolderGames:
    """Released games below a folder, in the order of their paths. Unusable files are reported and left out."""

    def __init__(self, settings: HouseholdSettings) -> None:
        """Raises ``EnvDataError`` if the folder is missing or neither split has a usable game."""
        self.root = Path(settings.games).expanduser()
        self.folders = {"train": settings.train_split, "valid": settings.valid_split}
        self.unusable: dict[str, str] = {}
        if not self.root.is_dir():
            raise EnvDataError(
                f"games: the folder '{self.root}' does not exist; give the folder that holds ALFWorld's "
                f"{FILE_NAME} files, or games: generated"
            )
        for name in self.folders.values():
            if not (self.root / name).resolve().is_relative_to(self.root.resolve()):
                raise EnvDataError(
                    f"the split folder '{name}' is not inside of '{self.root}'; name a subfolder"
                )
        self._splits: dict[str, tuple[list[Task], str]] = {}
        if not any(self._scan(split)[0] for split in self.folders):
            raise EnvDataError(self._nothing_found(*self.folders.values()))

    def tasks(self, split: str) -> Sequence[Task]:
        """Raises ``EnvDataError`` if the split has no usable game."""
        tasks = self._scan(split)[0]
        if not tasks:
            raise EnvDataError(self._nothing_found(self.folders[split]) + f" (needed for the split {split})")
        return tasks

    def load(self, task: Task) -> Game:
        """Read the task's file; refused if it changed since the task was made."""
        name = task.data.get("path")
        if not isinstance(name, str):
            raise EnvDataError(
                f"task {task.id} names no game file; it belongs to another environment or source"
            )
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise EnvDataError(f"task {task.id} names a file outside of {self.root}")
        game = load_game(path)
        if _file_hash(path) != task.data.get("sha256"):
            raise EnvDataError(f"{path} is not the file that the task was made from; restore it")
        return game

    def header(self) -> dict[str, Any]:
        """Counts and hashes by split, and the files that cannot be used with the reason."""
        scans = {split: self._scan(split) for split in self.folders}
        return {
            "games": str(self.root),
            "tasks": {split: len(tasks) for split, (tasks, _) in scans.items()},
            "sha256": {split: digest for split, (tasks, digest) in scans.items() if tasks},
            "unusable": dict(self.unusable),
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Names and task sentences of all games of both splits."""
        yield from sentence_texts()
        for split in self.folders:
            for task in self._scan(split)[0]:
                game = load_game(self.root / str(task.data["path"]))
                yield from (game.problem.task, *game.objects, *game.receptacles)

    def _scan(self, split: str) -> tuple[list[Task], str]:
        if split not in self._splits:
            self._splits[split] = self._read(self.root / self.folders[split])
        return self._splits[split]

    def _read(self, folder: Path) -> tuple[list[Task], str]:
        tasks, digest = [], hashlib.sha256()
        for path in sorted(folder.rglob(FILE_NAME)) if folder.is_dir() else ():
            name = path.relative_to(self.root).as_posix()
            try:
                task = _file_task(path, name)
            except GameFileError as error:
                if name not in self.unusable:
                    logger.warning("left out: %s", error)
                self.unusable[name] = str(error)
                continue
            tasks.append(task)
            digest.update(f"{name} {task.data['sha256']}\n".encode())
        return tasks, digest.hexdigest()

    def _nothing_found(self, *folders: str) -> str:
        tried = [self.root / folder for folder in folders]
        bad = [
            reason
            for name, reason in self.unusable.items()
            if any((self.root / name).is_relative_to(folder) for folder in tried)
        ]
        if bad:
            return f"games: none of the {len(bad)} files under '{self.root}' can be used; first: {bad[0]}"
        where = " or ".join(dict.fromkeys(folders))
        inside = sorted(path.name for path in self.root.iterdir() if path.is_dir())
        return (
            f"games: no {FILE_NAME} under '{self.root}' in {where}; subfolders are: {', '.join(inside) or 'none'}; "
            "set train_split and valid_split to the ones that hold the games"
        )


def _file_task(path: Path, name: str) -> Task:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise GameFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    sentence, goal = parse_header(parse_document(raw, path), path)
    return Task(
        id=str(Path(name).parent),
        env=_ENV,
        instruction=sentence.removeprefix("Your task is to: "),
        type=goal.kind,
        data={"path": name, "sha256": hashlib.sha256(raw).hexdigest()},
    )


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _fingerprint(settings: HouseholdSettings) -> str:
    digest = hashlib.sha256(f"generator {GENERATOR_VERSION}\n".encode())
    digest.update(json.dumps(settings.generator.model_dump(mode="json"), sort_keys=True).encode())
    digest.update(resources.files(__package__).joinpath("statistics.json").read_bytes())
    return digest.hexdigest()
