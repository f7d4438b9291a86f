"""Kinds of environments: built-in, from entry point group ``turnpoint.envs``, or ``module:attr``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from turnpoint.config import Registry, Settings
from turnpoint.envs.protocol import Capabilities, EnvDataError, EnvSuite
from turnpoint.records import Episode


class EnvSettings(Settings):
    """Base of every ``env`` section; subclasses add fields and build the suite."""

    capabilities: ClassVar[Capabilities]
    """What the environment can do, known without building it."""
    extra: ClassVar[str] = ""
    """Optional dependency group it needs (``pip install turnpoint[extra]``)."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Modules that the extra brings, by their import names."""
    data: ClassVar[str] = "none needed"
    """Which data it plays, for the list of environments."""
    prepared: ClassVar[str] = ""
    """Where ``turnpoint envs prepare`` puts released data by default; empty if there is none."""

    kind: str
    """Which environment."""

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """Abilities and needs, as plain JSON."""
        able = cls.capabilities
        return {
            "snapshots": able.snapshots,
            "replay": able.deterministic,
            "oracle": able.oracle,
            "admissible": able.admissible,
            "extra": cls.extra,
            "data": cls.data,
            "prepared": Path(cls.prepared).exists() if cls.prepared else None,
        }

    @classmethod
    def missing(cls) -> str:
        """What to install before this environment can be built; empty if everything is there."""
        if all(find_spec(name) is not None for name in cls.packages):
            return ""
        return f"pip install 'turnpoint[{cls.extra}]'"

    @classmethod
    def require(cls) -> None:
        """Raise ``EnvDataError`` that says what to install, if anything is missing."""
        if install := cls.missing():
            absent = ", ".join(name for name in cls.packages if find_spec(name) is None)
            kind = cls.model_fields["kind"].default
            raise EnvDataError(f"environment '{kind}' needs {absent}, which is not installed: {install}")

    @classmethod
    def prepare(cls, source: Path, folder: Path) -> dict[str, Any]:
        """Bring released data from ``source`` (a file or folder) into the form that ``build`` reads, in ``folder``.

        Gives facts for the user, hashes among them; raises ``EnvDataError`` if the source cannot be used.
        """
        kind = cls.model_fields["kind"].default
        raise EnvDataError(f"environment '{kind}' has no data to prepare: {cls.data}")

    def predictions(self, episodes: Iterable[Episode], out: Path, model: str) -> dict[str, Any]:
        """Write what ``episodes`` handed in to ``out``, in the form of the benchmark's own judge; gives facts.

        Raises ``EnvDataError`` where there is no such form.
        """
        raise EnvDataError(f"environment '{self.kind}' has no judge of its own that reads predictions")

    @classmethod
    def judge(cls, predictions: Path, dataset: str, run_id: str, workers: int) -> int:
        """Run the benchmark's own judge; gives its exit status. Raises ``EnvDataError`` where it cannot run."""
        kind = cls.model_fields["kind"].default
        raise EnvDataError(f"environment '{kind}' has no judge of its own that reads predictions")

    def build(self) -> EnvSuite:
        """The environment with its tasks; raises ``EnvDataError`` if its data is missing or unusable."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")


env_registry: Registry[EnvSettings] = Registry(
    "turnpoint.envs",
    EnvSettings,
    {
        "household": "turnpoint.envs.household.settings:HouseholdSettings",
        "sokoban": "turnpoint.envs.sokoban.settings:SokobanSettings",
        "minesweeper": "turnpoint.envs.minesweeper.settings:MinesweeperSettings",
        "webshop": "turnpoint.envs.webshop.settings:WebShopSettings",
        "search_qa": "turnpoint.envs.search_qa.settings:SearchQASettings",
        "math": "turnpoint.envs.math.settings:MathSettings",
        "alfworld": "turnpoint.envs.alfworld.settings:AlfworldSettings",
        "tau2": "turnpoint.envs.tau2.settings:Tau2Settings",
        "repo_repair": "turnpoint.envs.repo_repair.settings:RepoRepairSettings",
        "gymnasium": "turnpoint.envs.adapters.gymnasium.settings:GymnasiumSettings",
        "openenv": "turnpoint.envs.adapters.openenv.settings:OpenEnvSettings",
        "verifiers": "turnpoint.envs.adapters.verifiers.settings:VerifiersSettings",
        "skyrl_gym": "turnpoint.envs.adapters.skyrl.settings:SkyrlGymSettings",
        "reasoning_gym": "turnpoint.envs.adapters.reasoning.settings:ReasoningGymSettings",
        "textarena": "turnpoint.envs.adapters.textarena.settings:TextArenaSettings",
    },
)
