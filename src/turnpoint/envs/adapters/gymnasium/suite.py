"""A Gymnasium environment with tasks: one for each seed."""

from __future__ import annotations

from dataclasses import replace

from turnpoint.envs.adapters.gymnasium.game import GymGame
from turnpoint.envs.adapters.gymnasium.settings import GymnasiumSettings
from turnpoint.envs.adapters.suite import AdapterSuite


class GymSuite(AdapterSuite):
    """What the ``gymnasium`` section of a run config builds."""

    settings: GymnasiumSettings

    def __init__(self, settings: GymnasiumSettings) -> None:
        """Makes the environment once, to know its spaces. Raises ``EnvDataError`` if it cannot be played in text."""
        probe = GymGame(settings)
        spec = probe.env.spec
        repeats = settings.deterministic and not (spec is not None and spec.nondeterministic)
        capabilities = replace(settings.capabilities, deterministic=repeats, admissible=bool(probe.names))
        rules = probe.toy.rules if probe.toy else f"You play {settings.id}."
        named = f" Actions: {', '.join(probe.names)}." if probe.names else ""
        actions = probe.names or tuple(filter(None, [_sample(probe)]))
        probe.close()
        super().__init__(
            settings,
            capabilities,
            instructions=f"{rules}{named} Reply with one action.",
            instruction=f"play {settings.id.rpartition(':')[2]}.",
            actions=actions,
        )


def _sample(probe: GymGame) -> str:
    """An action of a Text space."""
    probe.env.action_space.seed(0)
    sample = probe.env.action_space.sample()
    return sample if isinstance(sample, str) else ""
