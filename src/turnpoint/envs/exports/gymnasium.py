"""Any environment as a ``gymnasium.Env`` with Text spaces."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from turnpoint.envs.exports.play import Player
from turnpoint.envs.protocol import EnvSuite

if TYPE_CHECKING:
    import gymnasium

LONGEST = 200_000
"""Characters of an observation or action in the spaces."""


def gymnasium_env(suite: EnvSuite, split: str = "train") -> gymnasium.Env[str, str]:
    """A ``gymnasium.Env`` over the tasks of a split.

    ``reset(seed=n)`` starts task ``n`` (modulo their number), ``reset(options={"index": n})`` exactly that one, and a
    bare ``reset()`` the next. Observations and actions are texts; ``info`` holds ``task``, ``admissible``,
    ``effective`` and, at the end, ``is_success``. A turn budget that runs out is ``truncated``.
    """
    import gymnasium

    class TurnpointEnv(gymnasium.Env[str, str]):  # type: ignore[misc]
        metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's own form)
        render_mode = "ansi"
        observation_space = _text_space(gymnasium)
        action_space = _text_space(gymnasium)

        def __init__(self) -> None:
            self.player = Player(suite)
            self._next = 0
            self._shown = ""

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[str, dict[str, Any]]:
            super().reset(seed=seed)
            index = (options or {}).get("index")
            if index is None and seed is None:
                index, self._next = self._next % len(suite.tasks(split)), self._next + 1
            task = self.player.choose(split, index, seed)
            seen = self.player.start(task)
            self._shown = seen.text
            return seen.text, {"task": task.id, "admissible": list(seen.admissible or ())}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            step, out_of_turns = self.player.step(action)
            self._shown = step.observation.text
            info: dict[str, Any] = {
                "admissible": list(step.observation.admissible or ()),
                "effective": step.effective,
            }
            if step.done or out_of_turns:
                info["is_success"] = bool(step.success)
            return step.observation.text, step.reward, step.done, out_of_turns, info

        def render(self) -> str:
            return self._shown

        def close(self) -> None:
            self.player.close()

    return TurnpointEnv()


def _text_space(gymnasium: Any) -> Any:
    return gymnasium.spaces.Text(max_length=LONGEST, min_length=0, charset=_Anything(string.printable))


class _Anything(str):
    """A character set that holds every character: texts are not limited to the ASCII ones that are sampled."""

    def __contains__(self, item: object) -> bool:
        return isinstance(item, str)
