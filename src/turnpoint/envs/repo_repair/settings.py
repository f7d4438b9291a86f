"""Settings of repository repair and of the sandbox that runs its tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from turnpoint.config import Settings
from turnpoint.envs.protocol import Capabilities, EnvDataError
from turnpoint.envs.registry import EnvSettings
from turnpoint.records import Episode

if TYPE_CHECKING:
    from turnpoint.envs.repo_repair.suite import RepoRepairSuite

PROGRAMS = ("bwrap",)
"""What has to be installed outside Python."""
SAMPLES = Path(__file__).parent / "samples" / "tasks.jsonl"
"""Tasks that come along."""
INSTALL = "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


class SandboxSettings(Settings):
    """Limits of the sandbox; a run that meets one of them is ended and says which."""

    python: Path | None = None
    """Interpreter that runs the tests and has pytest and all they need; None = this one, with nothing of its
    site-packages but pytest and what a task names."""
    seconds: PositiveFloat = 90.0
    """Wall clock of a run; on a busy machine another one may pass, so its results are not remembered."""
    cpu_seconds: PositiveInt = 10
    """CPU time of each process of a run: what ends loops without an end. Raise it for tests that take long."""
    memory_mb: PositiveInt = 1024
    """Memory of all processes of a run together, and address space of each."""
    processes: PositiveInt = 64
    """Processes and threads of a run."""
    disk_mb: PositiveInt = 256
    """What a run may write, the tree itself included; it is kept in memory and thrown away."""
    file_mb: PositiveInt = 64
    """Largest single file a run may write."""
    output_kb: PositiveInt = 256
    """Output that is kept; the rest is read, counted and dropped."""
    at_a_time: PositiveInt = 4
    """Sandboxes that run together; the others wait, and their clock does not run."""


class RepoRepairSettings(EnvSettings):
    """Repository repair: read, edit, run tests, submit."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        deterministic=True, snapshots=True, oracle=True, admissible=False
    )
    extra: ClassVar[str] = "repo"
    packages: ClassVar[tuple[str, ...]] = ("pytest",)
    data: ClassVar[str] = (
        "small packages with injected faults; your own or SWE-bench's through prepare and tasks=FILE"
    )

    kind: Literal["repo_repair"] = "repo_repair"
    tasks: str = "samples"
    """``samples``, or a file made by ``turnpoint envs prepare repo_repair``."""
    actions: Literal["open", "listed"] = "open"
    """``open``: any edit; ``listed``: one change of one line at a time, out of those that are listed as admissible: for
    small models with a closed vocabulary."""
    window: PositiveInt = 60
    """Lines that ``open`` shows at a time."""
    shown: PositiveInt = 6000
    """Longest observation in characters; a longer one is cut, and says by how much."""
    failures: PositiveInt = 3
    """Failing tests whose report is shown after a test run."""
    max_turns: PositiveInt = 30
    """Turn budget of an episode."""
    success_reward: float = 10.0
    """Reward of a submission that passes all its tests; any other gives 0."""
    sandbox: SandboxSettings = SandboxSettings()
    """Where tests run."""
    remember: NonNegativeInt = Field(default=512)
    """Test runs whose result is kept, by the exact contents of the tree; equal trees are not run again."""

    @property
    def file(self) -> Path:
        """The file of tasks."""
        return SAMPLES if self.tasks == "samples" else Path(self.tasks).expanduser()

    @classmethod
    def missing(cls) -> str:
        """What to install; pytest and bubblewrap are needed."""
        absent = [name for name in PROGRAMS if shutil.which(name) is None]
        return " and ".join(filter(None, [super().missing(), INSTALL if absent else ""]))

    @classmethod
    def require(cls) -> None:
        """Raise ``EnvDataError`` that says what to install, if anything is missing."""
        super_missing = super().missing()
        if super_missing or cls.missing():
            raise EnvDataError(f"environment 'repo_repair' runs tests in a sandbox: {cls.missing()}")

    @classmethod
    def prepare(cls, source: Path, folder: Path) -> dict[str, Any]:
        """Build tasks from packages, or read SWE-bench instances, into ``folder/tasks.jsonl``; see the builder."""
        cls.require()
        from turnpoint.envs.repo_repair.prepare import prepare

        return prepare(source, folder)

    def predictions(self, episodes: Iterable[Episode], out: Path, model: str) -> dict[str, Any]:
        """SWE-bench's prediction lines of the first episode of each task; needs no sandbox."""
        from turnpoint.envs.repo_repair.swebench import write_predictions

        return write_predictions(episodes, self, out, model)

    @classmethod
    def judge(cls, predictions: Path, dataset: str, run_id: str, workers: int) -> int:
        """SWE-bench's harness, where Docker runs."""
        from turnpoint.envs.repo_repair.swebench import evaluate

        return evaluate(predictions, dataset, run_id, ["--max_workers", str(workers)])

    def build(self) -> RepoRepairSuite:
        """The suite; raises ``EnvDataError`` if tasks cannot be read or the sandbox cannot start."""
        self.require()
        from turnpoint.envs.repo_repair.suite import RepoRepairSuite

        return RepoRepairSuite(self)
