"""reasoning-gym's problems as tasks."""

from __future__ import annotations

from typing import Any

from turnpoint.envs.adapters.reasoning.game import NO_ANSWER, PARTLY, RIGHT, WRONG, Problems
from turnpoint.envs.adapters.reasoning.settings import ReasoningGymSettings
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import VALID_SEED, split_of
from turnpoint.records import Task

_TRIES = 200
_STRIDE = 1_000_003
"""Between two tries for the same task; prime and larger than any split."""
ASK = "Answer the problem. Only the answer itself counts."
ASK_TAGS = "Answer the problem. Only the text between <answer> and </answer> counts."


class ReasoningSuite(AdapterSuite):
    """What the ``reasoning_gym`` section of a run config builds."""

    settings: ReasoningGymSettings

    def __init__(self, settings: ReasoningGymSettings) -> None:
        """Makes every dataset and its first problems at once. Raises ``EnvDataError`` if one cannot be made."""
        self._problems = Problems(settings)
        super().__init__(
            settings,
            settings.capabilities,
            instructions=ASK if settings.answer == "whole" else ASK_TAGS,
            instruction="solve the problem.",
            actions=("0", "1", *(RIGHT, PARTLY, WRONG, NO_ANSWER)),
        )
        for split in ("train", "valid"):
            _ = self.tasks(split)[: len(settings.datasets)]

    def draw(self, split: str, number: int) -> Task:
        """Problem ``number`` of a split; no problem is in both."""
        task = super().draw(split, number)
        names = self.settings.datasets
        data = dict(task.data) | {"dataset": names[number % len(names)], "base": self._base(split)}
        for attempt in range(_TRIES):
            found: dict[str, Any] = data | {"index": number // len(names) + attempt * _STRIDE}
            question = self._problems.item(found)["question"]
            if split_of(question) == split:
                return Task(task.id, task.env, task.instruction, found["dataset"], "", task.seed, found)
        raise EnvDataError(
            f"dataset '{found['dataset']}' has too few different problems for two splits with env.options "
            f"{self.settings.options.get(found['dataset'], {})}; set options that make more"
        )

    @staticmethod
    def _base(split: str) -> int:
        return VALID_SEED if split == "valid" else 0
