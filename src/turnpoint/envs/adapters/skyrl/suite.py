"""A skyrl-gym environment with tasks: one for each row."""

from __future__ import annotations

from typing import Any

from turnpoint.envs.adapters.skyrl.game import SkyGame
from turnpoint.envs.adapters.skyrl.rows import Rows, generated
from turnpoint.envs.adapters.skyrl.settings import GENERATED, SkyrlGymSettings
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.protocol import EnvError
from turnpoint.envs.seeded import SeededTasks
from turnpoint.records import Task


class SkySuite(AdapterSuite):
    """What the ``skyrl_gym`` section of a run config builds."""

    settings: SkyrlGymSettings

    def __init__(self, settings: SkyrlGymSettings) -> None:
        """Reads the files and starts the first row of each. Raises ``EnvDataError`` if one does not fit."""
        paths = {"train": settings.train, "valid": settings.valid}
        self._rows = {split: Rows(path, f"env.{split}") for split, path in paths.items() if path != GENERATED}
        super().__init__(
            settings,
            settings.capabilities,
            instructions="You answer the user. Your reply is read as it is.",
            instruction="answer the user.",
        )
        for split, rows in self._rows.items():
            self._tasks[split] = SeededTasks(split, len(rows.rows), self.draw)
        self._try_rows()

    def _try_rows(self) -> None:
        from turnpoint.envs.protocol import EnvDataError

        game = SkyGame(self.settings)
        for split in ("train", "valid"):
            try:
                game.reset(self.tasks(split)[0].data)
            except EnvError as error:
                raise EnvDataError(f"the first row of env.{split} cannot be played: {error}") from error
        game.close()

    def draw(self, split: str, number: int) -> Task:
        """The task of a row."""
        task = super().draw(split, number)
        found = self._rows.get(split)
        row: dict[str, Any] = found.rows[number] if found else generated(split, number)
        return Task(
            task.id, task.env, task.instruction, self.settings.id, "", task.seed, {**task.data, "row": row}
        )

    def header(self) -> dict[str, Any]:
        """Versions, settings, counts, and hashes of the files."""
        return super().header() | {"sha256": {split: rows.sha256 for split, rows in self._rows.items()}}
