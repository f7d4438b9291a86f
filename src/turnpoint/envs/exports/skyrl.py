"""Any environment as a skyrl-gym ``BaseTextEnv``: ``turnpoint.envs.exports.skyrl:TurnpointEnv``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from turnpoint.envs.exports.play import Player, listed
from turnpoint.envs.protocol import EnvSuite
from turnpoint.envs.registry import env_registry

ENTRY_POINT = "turnpoint.envs.exports.skyrl:TurnpointEnv"


def register_environment(identifier: str = "turnpoint") -> None:
    """Let ``skyrl_gym.make(identifier, ...)`` make our environments; a second call does nothing."""
    from skyrl_gym.envs.registration import register, registry

    if identifier not in registry:
        register(id=identifier, entry_point=ENTRY_POINT)


def rows(
    section: Mapping[str, Any], split: str = "train", identifier: str = "turnpoint"
) -> Iterator[dict[str, Any]]:
    """Rows of a SkyRL dataset: one for each task of the environment that the ``env`` section ``section`` builds."""
    suite = env_registry.parse(dict(section)).build()
    for index, task in enumerate(suite.tasks(split)):
        yield {
            "prompt": [{"role": "system", "content": suite.instructions}],
            "env_class": identifier,
            "max_turns": suite.max_turns,
            "extra_info": {"env": dict(section), "split": split, "index": index, "task": task.id},
        }


@lru_cache(maxsize=8)
def _suite(section: str) -> EnvSuite:
    import json

    return env_registry.parse(json.loads(section)).build()


def _make_class() -> type:
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

    class TurnpointEnv(BaseTextEnv):  # type: ignore[misc]
        """One task; ``extras["extra_info"]`` names the ``env`` section, the split and the index (see ``rows``)."""

        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            import json

            super().__init__()
            wanted = (extras or {}).get("extra_info") or {}
            if not {"env", "split", "index"} <= set(wanted):
                raise KeyError(
                    "extra_info must hold env, split and index, as turnpoint.envs.exports.skyrl.rows makes it"
                )
            self.player = Player(_suite(json.dumps(wanted["env"], sort_keys=True)))
            self.max_turns = int((extras or {}).get("max_turns") or self.player.suite.max_turns)
            self._task = self.player.choose(str(wanted["split"]), int(wanted["index"]))
            self._success = False

        def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
            seen = self.player.start(self._task)
            return [*prompt, {"role": "user", "content": listed(seen)}], {"task": self._task.id}

        def step(self, action: str) -> Any:
            self.turns += 1
            step, out_of_turns = self.player.step(action)
            done = step.done or out_of_turns or self.turns >= self.max_turns
            self._success = bool(step.success)
            says = [] if done else [{"role": "user", "content": listed(step.observation)}]
            metadata = {"effective": step.effective, "success": self._success}
            return BaseTextEnvStepOutput(observations=says, reward=step.reward, done=done, metadata=metadata)

        def get_metrics(self) -> dict[str, Any]:
            return {"turns": self.turns, "success": float(self._success)}

        def close(self) -> None:
            self.player.close()

    return TurnpointEnv


def __getattr__(name: str) -> Any:
    """``TurnpointEnv``, made when it is first asked for: this module itself needs no skyrl-gym."""
    if name == "TurnpointEnv":
        made = globals()[name] = _make_class()
        return made
    raise AttributeError(f"module {__name__} has no attribute {name}")
