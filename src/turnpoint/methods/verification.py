"""A named action is tried in a forked environment before it is distilled. Goes beyond the papers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from turnpoint.config import ConfigError, Settings
from turnpoint.envs import Capabilities, EnvError
from turnpoint.methods.tally import Tally
from turnpoint.records import Observation, Step
from turnpoint.rollouts import EnvCopy, Rollouts
from turnpoint.teachers.protocol import Situation


class VerifySettings(Settings):
    """What a named action must do in the state it is named for."""

    level: Literal["exists", "moves", "closer"] = "moves"
    """``exists``: the environment accepts it; ``moves``: and it changes the state (its key, or what is seen where
    states have none); ``closer``: and the oracle's distance falls, which uses hidden state."""
    unverified: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Factor on the weight of turns whose action fails; 0 = they are dropped."""
    recovery: bool = True
    """Whether recovery actions are tried as well."""

    def check(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` if the environment cannot be forked or, for ``closer``, has no oracle."""
        if not (capabilities.snapshots or capabilities.deterministic):
            raise ConfigError(
                "method.verify brings recorded states back, but this environment has neither snapshots nor "
                "deterministic replay; set method.verify to null"
            )
        if self.level == "closer" and not capabilities.oracle:
            raise ConfigError(
                "method.verify.level is closer, which asks the environment's oracle, and there is none; set it to moves"
            )


class Verifier:
    """Forks the state, executes the action there, and says what is wrong with it.

    What that costs is counted by itself (``verify/interactions``, and ``verify/replayed_turns`` where states come back
    by replay); it is no experience of the agent, so it is in no other count.
    """

    def __init__(self, settings: VerifySettings, rollouts: Rollouts, tally: Tally) -> None:
        self.settings = settings
        self.rollouts = rollouts
        self.tally = tally

    async def fault(self, where: Situation, action: str) -> str | None:
        """Why ``action`` is not verified in that state; None if it is. Never raises for what an environment does.

        ``refused``, ``unmoved``, ``not_closer``, or ``not_restored`` where the state could not be brought back.
        """
        try:
            async with self.rollouts.envs.lend() as env:
                fault = await self._try(env, where, action)
        except (EnvError, TimeoutError):
            fault = "not_restored"
        self.tally.add(f"verify/{fault or 'verified'}")
        return fault

    async def _try(self, env: EnvCopy, where: Situation, action: str) -> str | None:
        level, count = self.settings.level, len(where.turns)
        before = await env.restore(where.as_episode(), count)
        if not (env.env.capabilities.snapshots and where.snapshot is not None):
            self.tally.add("verify/replayed_turns", count)
        far = await env.call(env.env.distance) if level == "closer" else None
        step = await env.call(env.env.step, action)
        self.tally.add("verify/interactions")
        if not step.effective:
            return "refused"
        if level != "exists" and not moved(before, step):
            return "unmoved"
        if level == "closer":
            near = await env.call(env.env.distance)
            return None if near is not None and far is not None and near < far else "not_closer"
        return None


def moved(before: Observation, step: Step) -> bool:
    """Whether a step changed the state: by its key where both have one, else by what is seen and can be done."""
    after = step.observation
    if step.done:
        return True
    if before.state_key is not None and after.state_key is not None:
        return before.state_key != after.state_key
    return (before.text, before.admissible) != (after.text, after.admissible)
