"""Settings of the verifiers adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from turnpoint.envs.adapters.settings import AdapterSettings

if TYPE_CHECKING:
    from turnpoint.envs.adapters.verifiers.game import VerifiersGame
    from turnpoint.envs.adapters.verifiers.suite import VerifiersSuite


class VerifiersSettings(AdapterSettings):
    """A taskset of verifiers with its environment. The whole reply is the agent's message: set
    ``prompt.action_tags: false``."""

    extra: ClassVar[str] = "verifiers"
    packages: ClassVar[tuple[str, ...]] = ("verifiers",)
    distributions: ClassVar[tuple[str, ...]] = ("verifiers",)
    data: ClassVar[str] = "the taskset's: taskset=NAME of an installed module, as verifiers itself takes it"

    kind: Literal["verifiers"] = "verifiers"
    taskset: str = "turnpoint.envs.adapters.verifiers.sums"
    """Installed module that exports the taskset, and its environment if it has one of its own."""
    taskset_options: dict[str, Any] = Field(default_factory=dict)
    """Further settings of the taskset, as ``game`` of ``textarena``."""
    env_id: str = ""
    """Environment that plays the taskset, where it is not the taskset's own."""
    env_options: dict[str, Any] = Field(default_factory=dict)
    """Further settings of the environment."""
    valid_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Share of a finite taskset that is ``valid``; every so-manyth task."""
    success_reward: float = 1.0
    """Reward from which an episode counts as a success."""

    def game(self) -> VerifiersGame:
        """One player of tasks."""
        from turnpoint.envs.adapters.verifiers.game import VerifiersGame

        return VerifiersGame(self)

    def build(self) -> VerifiersSuite:
        """The suite; raises ``EnvDataError`` if the taskset cannot be loaded or needs more than text."""
        from turnpoint.envs.adapters.verifiers.suite import VerifiersSuite

        self.require()
        return VerifiersSuite(self)
