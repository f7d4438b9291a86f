"""Settings of Sokoban and of its level generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.seeded import SeededSettings
from turnpoint.envs.sokoban.solver import MOST_STATES, count_states

if TYPE_CHECKING:
    from turnpoint.envs.sokoban.suite import SokobanSuite

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=True, admissible=True)


class SokobanSettings(SeededSettings):
    """Sokoban on generated levels: push every box onto a target."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    data: ClassVar[str] = "generated levels"

    kind: Literal["sokoban"] = "sokoban"
    rows: int = Field(default=6, ge=3)
    """Height of a level, the walls around it included."""
    columns: int = Field(default=6, ge=3)
    """Width of a level, the walls around it included."""
    boxes: PositiveInt = 2
    """Boxes, and as many targets."""
    inner_walls: tuple[NonNegativeInt, NonNegativeInt] = (0, 5)
    """Least and most wall cells inside the walls around the level."""
    solution_moves: tuple[PositiveInt, PositiveInt] = (3, 15)
    """Least and most moves of a shortest solution; other levels are drawn again."""
    level_seed: NonNegativeInt = 0
    """Another value gives other levels for every task."""
    max_turns: PositiveInt = 7
    """Turn budget of an episode."""
    moves_per_turn: int = Field(default=3, ge=1, le=4)
    """Most moves in one action; 1 leaves just the four moves."""
    move_budget: PositiveInt = 30
    """Moves after which a level is lost, blocked ones included."""
    end_when_unsolvable: bool = True
    """End the episode as soon as no solution is left."""
    move_reward: float = -0.1
    """Reward of every move, blocked ones included."""
    on_target_reward: float = 1.0
    """Reward of pushing a box onto a target."""
    off_target_reward: float = -1.0
    """Reward of pushing a box off a target onto other floor."""
    success_reward: float = 10.0
    """Reward, on top of the others, of the move that places the last box."""
    ascii: bool = False
    """Show a box on a target as ``*`` instead of ``√``."""
    coordinates: bool = False
    """List rows and columns of player, boxes and targets below the grid; small models need it."""

    @model_validator(mode="after")
    def _possible(self) -> SokobanSettings:
        inner = (self.rows - 2) * (self.columns - 2)
        for name, (least, most) in (
            ("inner_walls", self.inner_walls),
            ("solution_moves", self.solution_moves),
        ):
            if least > most:
                raise ValueError(f"{name}: {least} is more than {most}; give [least, most]")
        if inner - self.inner_walls[1] < 2 * self.boxes + 1:
            raise ValueError(
                f"{self.boxes} boxes with their targets and the player do not fit into {self.rows} x "
                f"{self.columns} with up to {self.inner_walls[1]} inner walls; set a larger size, fewer boxes "
                "or fewer inner_walls"
            )
        if count_states(inner, self.boxes) > MOST_STATES:
            raise ValueError(
                f"{self.rows} x {self.columns} with {self.boxes} boxes has {count_states(inner, self.boxes)} "
                f"states and the exact oracle searches at most {MOST_STATES}; set a smaller size or fewer boxes"
            )
        reach = min(self.max_turns * self.moves_per_turn, self.move_budget)
        if self.solution_moves[1] > reach:
            raise ValueError(
                f"solution_moves allows {self.solution_moves[1]} moves, but an episode has at most {reach} "
                "(max_turns x moves_per_turn, and move_budget); raise those or lower solution_moves"
            )
        return self

    @property
    def budget_binds(self) -> bool:
        """Whether moves can run out before turns do; only then are they part of what is shown and compared."""
        return self.move_budget < self.max_turns * self.moves_per_turn

    def build(self) -> SokobanSuite:
        """The suite; raises ``EnvDataError`` if the settings allow hardly any level."""
        from turnpoint.envs.sokoban.suite import SokobanSuite

        return SokobanSuite(self)
