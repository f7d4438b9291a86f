"""Released ALFWorld games in a folder: where they are, what they ask, and whether they are what was prepared."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError
from turnpoint.records import Task

FILE_NAME = "game.tw-pddl"
MANIFEST = "manifest.json"
_TASK = re.compile(r'"task": \[\s*\{\s*"rhs": "(.*?)"', re.S)
"""Where a grammar holds the task sentence (group 1, as inside a JSON string)."""
_NEW = "move {o} to {r}"
_OLD = re.compile(r"put \{o\} in/on \{r\}|put \{o\} (?:in|on) \{r\}")


def read_game(raw: bytes, where: str) -> dict[str, Any]:
    """A game document. Raises ``EnvDataError`` if the bytes are not a whole ALFWorld game."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EnvDataError(f"{where}: is not a complete JSON file ({error}); fetch it again") from error
    for name in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(document, dict) or not isinstance(document.get(name), str):
            raise EnvDataError(f"{where}: has no '{name}'; it is not an ALFWorld game file")
    if _TASK.search(document["grammar"]) is None:
        raise EnvDataError(f"{where}: its grammar has no task sentence")
    grammar_of(document, where)
    return document  # type: ignore[no-any-return]


def grammar_of(document: dict[str, Any], where: str) -> str:
    """``move`` (ALFWorld 0.4) or ``put`` (before). Raises ``EnvDataError`` for any other."""
    if _NEW in document["grammar"]:
        return "move"
    if _OLD.search(document["grammar"]):
        return "put"
    raise EnvDataError(f"{where}: its grammar has neither 'move ... to ...' nor 'put ... in/on ...'")


def file_task(path: Path, name: str) -> Task:
    """The task of a game file. Raises ``EnvDataError``."""
    raw = path.read_bytes()
    document = read_game(raw, str(path))
    found = _TASK.search(document["grammar"])
    assert found is not None
    sentence = str(json.loads(f'"{found[1]}"'))
    parts = Path(name).parts
    kind = parts[-3].split("-")[0] if len(parts) >= 3 else ""
    return Task(
        id=str(Path(name).parent),
        env="alfworld",
        instruction=sentence.removeprefix("Your task is to: "),
        type=kind,
        data={
            "path": name,
            "sha256": hashlib.sha256(raw).hexdigest(),
            "grammar": grammar_of(document, str(path)),
        },
    )


def split_hash(hashes: dict[str, str]) -> str:
    """Hash of a split: its file names (below the split's folder) and their hashes, in the order of the names."""
    lines = (f"{name} {hashes[name]}\n" for name in sorted(hashes))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class GameFolder:
    """Games of both splits below a folder."""

    def __init__(self, root: Path, folders: dict[str, str]) -> None:
        """Raises ``EnvDataError`` if the folder is missing, neither split has a game, or a file was changed."""
        self.root, self.folders = root, folders
        if not root.is_dir():
            raise EnvDataError(
                f"games: the folder '{root}' does not exist; make it with turnpoint envs prepare alfworld "
                "ARCHIVE, or set games to a folder of game.tw-pddl files"
            )
        self._splits = {split: self._read(folder) for split, folder in folders.items()}
        self.pinned = self._check_manifest()
        if not any(self._splits.values()):
            where = " or ".join(dict.fromkeys(folders.values()))
            raise EnvDataError(
                f"games: no {FILE_NAME} under '{root}' in {where}; set train_split and valid_split to the "
                "folders that hold the games"
            )

    def tasks(self, split: str) -> list[Task]:
        """Tasks in the order of their paths. Raises ``EnvDataError`` if the split has none."""
        if split not in self._splits:
            raise EnvDataError(f"alfworld has no split '{split}'; use train or valid")
        if not self._splits[split]:
            raise EnvDataError(f"games: no {FILE_NAME} under '{self.root / self.folders[split]}' ({split})")
        return self._splits[split]

    def hash(self, split: str) -> str:
        """Hash of a split's games."""
        folder = self.folders[split]
        return split_hash(
            {
                Path(str(task.data["path"])).relative_to(folder).as_posix(): str(task.data["sha256"])
                for task in self._splits[split]
            }
        )

    def _read(self, folder: str) -> list[Task]:
        place = self.root / folder
        if not place.resolve().is_relative_to(self.root.resolve()):
            raise EnvDataError(
                f"the split folder '{folder}' is not inside of '{self.root}'; name a subfolder"
            )
        return [
            file_task(path, path.relative_to(self.root).as_posix()) for path in sorted(place.rglob(FILE_NAME))
        ]

    def _check_manifest(self) -> bool:
        """Whether both splits are pinned; raises ``EnvDataError`` if their games are not those any more."""
        file = self.root / MANIFEST
        if not file.is_file():
            return False
        pins = json.loads(file.read_text()).get("splits", {})
        for split, folder in self.folders.items():
            pin = pins.get(folder)
            if pin is not None and pin["sha256"] != self.hash(split):
                raise EnvDataError(
                    f"games: the files under '{self.root / folder}' are not those that were prepared "
                    f"({MANIFEST} says {pin['games']} games, sha256 {pin['sha256'][:12]}...); prepare them again"
                )
        return all(folder in pins for folder in self.folders.values())
