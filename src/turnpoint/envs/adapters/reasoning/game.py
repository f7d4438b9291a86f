"""Problems and their scorers, in the process that plays."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnpoint.envs.adapters.game import Nonsense, Shown
from turnpoint.envs.adapters.reasoning.guard import guard, presentable
from turnpoint.envs.protocol import EnvDataError

if TYPE_CHECKING:
    from turnpoint.envs.adapters.reasoning.settings import ReasoningGymSettings

RIGHT, PARTLY, WRONG = "The answer is right.", "The answer is partly right.", "The answer is wrong."
NO_ANSWER = "There is no answer in the reply."
_SIZE = 1 << 30
"""Virtual size of a dataset: items are made when they are asked for."""


@functools.lru_cache(maxsize=64)
def _dataset(name: str, options: str, seed: int) -> Any:
    import json

    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    if name not in DATASETS:
        raise EnvDataError(
            f"env.datasets names '{name}', which reasoning-gym does not have; it has {', '.join(DATASETS)}"
        )
    given = json.loads(options)
    try:
        dataset = reasoning_gym.create_dataset(name, **({"seed": seed, "size": _SIZE} | given))
    except (TypeError, ValueError, AssertionError) as error:
        raise EnvDataError(
            f"env.options of dataset '{name}' are {given}, which it refuses: {error}"
        ) from error
    guard(name, dataset)
    return dataset


class Problems:
    """Items of datasets by name, seed and index."""

    def __init__(self, settings: ReasoningGymSettings) -> None:
        self._settings = settings
        self._dataset: Any = None
        self._item: dict[str, Any] = {}

    def dataset(self, name: str, seed: int) -> Any:
        """A dataset. Raises ``EnvDataError`` if there is none of that name or its options are refused."""
        import json

        return _dataset(name, json.dumps(self._settings.options.get(name, {}), sort_keys=True), seed)

    def item(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The problem of a task."""
        item = self.dataset(str(data["dataset"]), int(data["base"]))[int(data["index"])]
        if not isinstance(item, dict) or not isinstance(item.get("question"), str):
            raise Nonsense("the item has no question")
        return item

    def reset(self, data: Mapping[str, Any]) -> Shown:
        """Show the problem."""
        self._item = self.item(data)
        self._dataset = self.dataset(str(data["dataset"]), int(data["base"]))
        return Shown(self._item["question"])

    def step(self, action: str) -> Shown:
        """Score the answer with the dataset's own scorer."""
        answer: str | None = action.strip()
        if self._settings.answer == "tags":
            from reasoning_gym.utils import extract_answer

            answer = extract_answer(action)
        if not answer:
            return Shown(NO_ANSWER, 0.0, True, False, effective=False)
        if not presentable(self._dataset, answer):
            return Shown(WRONG, 0.0, True, False)
        score = self._dataset.score_answer(answer, entry=self._item)
        right = isinstance(score, int | float) and score >= self._settings.success_score
        text = RIGHT if right else PARTLY if isinstance(score, int | float) and score >= 0.5 else WRONG
        return Shown(text, score, True, right)

    def close(self) -> None:
        """Forget the problem."""
        self._item = {}
