"""Settings of the math environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.math.suite import MathSuite

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=False, admissible=False)


class MathSettings(EnvSettings):
    """Problems with one final answer; a turn is the whole solution. Set ``prompt.action_tags: false``."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    extra: ClassVar[str] = "math"
    packages: ClassVar[tuple[str, ...]] = ("math_verify",)
    data: ClassVar[str] = "generated problems; any JSONL of problems through train=FILE and valid=FILE"

    kind: Literal["math"] = "math"
    train: str = "generated"
    """Problems of the split ``train``: ``generated``, a JSONL file, or a folder of such files."""
    valid: str = "generated"
    """Problems of the split ``valid``, likewise."""
    problem_field: str | None = None
    """Field with the problem; unset: ``problem``, ``question`` or ``prompt``, the first that a line has."""
    answer_field: str | None = None
    """Field with the final answer; unset: ``answer``, ``final_answer``, ``expected_answer`` or ``target``."""
    train_tasks: PositiveInt = 1000
    """How many generated problems the split ``train`` has."""
    valid_tasks: PositiveInt = 200
    """How many generated problems the split ``valid`` has; they share no seed with ``train``."""
    max_turns: Literal[1] = 1
    """The reply is the answer."""
    success_reward: float = 1.0
    """Reward of a right answer; a wrong one gives 0."""
    boxed: bool = True
    """Only the last ``\\boxed{...}`` of a reply counts; otherwise any final answer that can be recognised does."""
    check_seconds: PositiveFloat = 5.0
    """Longest check of one answer; one that takes longer counts as wrong."""
    check_memory_mb: PositiveInt = 2048
    """Memory of the process that checks answers."""

    def build(self) -> MathSuite:
        """The suite; raises ``EnvDataError`` if the checker is not installed or a file is missing or unusable."""
        from turnpoint.envs.math.suite import MathSuite

        self.require()
        return MathSuite(self)
