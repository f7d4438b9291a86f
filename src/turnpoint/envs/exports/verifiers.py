"""Any environment as a taskset and environment of verifiers: ``TurnpointTaskset`` and ``TurnpointEnv``.

verifiers finds top-level modules only, so put these two names into one of your own, with an ``__all__``; ``section`` of
the taskset's settings is the ``env`` section, ``split`` its split.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from turnpoint.envs.exports.play import Player, listed
from turnpoint.envs.protocol import EnvSuite
from turnpoint.envs.registry import env_registry

__all__ = ["TurnpointEnv", "TurnpointTaskset"]  # noqa: F822 (made by __getattr__)


@lru_cache(maxsize=8)
def _suite(section: str) -> EnvSuite:
    import json

    return env_registry.parse(json.loads(section)).build()


def _make_classes() -> dict[str, type]:
    import json

    import verifiers.v1 as vf
    from pydantic import Field

    class TurnpointConfig(vf.TasksetConfig):  # type: ignore[misc]
        section: dict[str, Any] = Field(default_factory=lambda: {"kind": "household"})
        split: str = "train"

    class TurnpointData(vf.TaskData):  # type: ignore[misc]
        section: str
        split: str
        index: int

    class TurnpointTask(vf.Task[TurnpointData]):  # type: ignore[misc]
        """Scored by the environment."""

    class TurnpointTaskset(vf.Taskset[TurnpointTask, TurnpointConfig]):  # type: ignore[misc]
        """The tasks of a split."""

        def load(self) -> Iterator[TurnpointTask]:
            section = json.dumps(self.config.section, sort_keys=True)
            suite = _suite(section)
            for index, task in enumerate(suite.tasks(self.config.split)):
                data = TurnpointData(
                    name=task.id,
                    prompt=None,
                    system_prompt=suite.instructions,
                    section=section,
                    split=self.config.split,
                    index=index,
                )
                yield TurnpointTask(data, self.config.task)

    class TurnpointEnvConfig(vf.EnvConfig):  # type: ignore[misc]
        player: vf.AgentConfig = vf.AgentConfig()

    class TurnpointEnv(vf.Env[TurnpointEnvConfig]):  # type: ignore[misc]
        """The environment plays the user; the sum of its rewards is the trace's reward."""

        async def run(self, task: Any, agents: Any) -> None:
            data = task.data
            player = Player(_suite(data.section))
            total, success = 0.0, False
            try:
                seen = player.start(player.choose(data.split, data.index))
                async with agents.player.interaction(task) as interaction:
                    segment = await interaction.turn(listed(seen))
                    while not segment.terminated:
                        step, out_of_turns = player.step(segment.last_reply)
                        total += step.reward
                        if step.done or out_of_turns:
                            success = bool(step.success)
                            break
                        segment = await interaction.turn(listed(step.observation))
            finally:
                player.close()
            interaction.trace.record_reward("turnpoint_reward", total)
            interaction.trace.record_metric("success", float(success))

    return {"TurnpointTaskset": TurnpointTaskset, "TurnpointEnv": TurnpointEnv}


def __getattr__(name: str) -> Any:
    """The two classes, made when one is first asked for: this module itself needs no verifiers."""
    if name in __all__:
        globals().update(_make_classes())
        return globals()[name]
    raise AttributeError(f"module {__name__} has no attribute {name}")
