"""Settings of the OpenEnv client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, field_validator

from turnpoint.envs.adapters.settings import AdapterSettings
from turnpoint.envs.protocol import Capabilities

if TYPE_CHECKING:
    from turnpoint.envs.adapters.openenv.suite import OpenEnvSuite


class OpenEnvSettings(AdapterSettings):
    """An environment behind the address of an OpenEnv server; every copy is a session of its own."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        deterministic=False, snapshots=False, oracle=False, admissible=False
    )
    extra: ClassVar[str] = "openenv"
    packages: ClassVar[tuple[str, ...]] = ("websockets",)
    distributions: ClassVar[tuple[str, ...]] = ("websockets",)
    data: ClassVar[str] = "the server's: base_url=ADDRESS; turnpoint serve env KIND serves one"

    kind: Literal["openenv"] = "openenv"
    base_url: str = "http://127.0.0.1:8000"
    """Address of the server, without a path after it."""
    deterministic: bool = False
    """The server shows the same for the same reset and actions; only then are states restored, by verified replay."""
    admissible: bool = False
    """Observations list their admissible actions in a field ``admissible``, as ``turnpoint serve env`` does."""
    reset: Literal["auto", "seed", "task"] = "auto"
    """What a task hands to the server's reset: ``seed``, or ``split`` and ``index`` of the server's own tasks;
    ``auto``: the latter where the server has tasks of these splits."""
    train_split: str = "train"
    """The server's split that is trained on, where it has tasks."""
    valid_split: str = "valid"
    """The server's split that is evaluated on, where it has tasks."""
    reset_options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the server's reset."""
    action_field: str = ""
    """Field of the action that holds the agent's text; empty = the only one that the server's schema requires."""
    action_json: bool = False
    """The agent writes the whole action as a JSON object."""
    observation_field: str = ""
    """Field of the observation that the agent sees; empty = the only text in it, or all of it as JSON."""
    success_return: float = 1.0
    """Sum of rewards from which an episode counts as a success, unless the observation has a field ``success``."""
    processes: Literal[0] = 0
    """The server plays."""
    connect_seconds: PositiveFloat = 10.0
    """Longest connecting; a call may take ``call_seconds``."""

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an address such as http://127.0.0.1:8000")
        return value.rstrip("/")

    def build(self) -> OpenEnvSuite:
        """The suite; raises ``EnvDataError`` if the server does not answer or its actions are not text."""
        from turnpoint.envs.adapters.openenv.suite import OpenEnvSuite

        self.require()
        return OpenEnvSuite(self)
