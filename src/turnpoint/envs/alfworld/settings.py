"""Settings of the environment around the real ALFWorld engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.alfworld.suite import AlfworldSuite

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=False, admissible=True)


class AlfworldSettings(EnvSettings):
    """ALFWorld with its own engine; ``household`` plays the same games much faster and has an oracle."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    extra: ClassVar[str] = "alfworld"
    packages: ClassVar[tuple[str, ...]] = ("textworld", "alfworld", "fast_downward")
    data: ClassVar[str] = "released games: turnpoint envs prepare alfworld ARCHIVE"
    prepared: ClassVar[str] = "data/alfworld"

    kind: Literal["alfworld"] = "alfworld"
    games: str = "data/alfworld"
    """Folder with ``game.tw-pddl`` files at any depth, as ``turnpoint envs prepare alfworld`` makes it."""
    train_split: str = "train"
    """Folder under ``games`` that holds the split ``train``; ``.`` takes everything."""
    valid_split: str = "valid_seen"
    """Folder under ``games`` that holds the split ``valid``."""
    max_turns: PositiveInt = 30
    """Turn budget of an episode."""
    success_reward: float = 10.0
    """Reward of the turn that completes the task; every other turn gives 0."""
    processes: PositiveInt = 2
    """Engine processes, shared by all copies; more than one works at a time with ``rollout.env_seconds`` only."""
    engine_seconds: PositiveFloat = 60.0
    """Longest answer of the engine; loading a game takes about a second."""
    games_loaded: PositiveInt = 16
    """Games that each process keeps loaded; one that is not is loaded again."""
    process_mb: PositiveInt = 4096
    """Memory in use above which an engine process is replaced after its call; episodes go on from recorded states."""

    @classmethod
    def prepare(cls, source: Path, folder: Path) -> dict[str, Any]:
        """Take the games out of a released archive or folder; see ``turnpoint.envs.alfworld.prepare``."""
        from turnpoint.envs.alfworld.prepare import prepare_games

        return prepare_games(source, folder)

    def build(self) -> AlfworldSuite:
        """The suite; raises ``EnvDataError`` if the engine is not installed or a split has no game."""
        from turnpoint.envs.alfworld.suite import AlfworldSuite

        self.require()
        return AlfworldSuite(self)
