"""Settings of Minesweeper and of its board generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from turnpoint.envs.minesweeper.posterior import MOST_LAYOUTS, count_layouts
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.seeded import SeededSettings

if TYPE_CHECKING:
    from turnpoint.envs.minesweeper.suite import MinesweeperSuite

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=True, admissible=True)


class MinesweeperSettings(SeededSettings):
    """Minesweeper on generated boards: open every cell without a mine."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    data: ClassVar[str] = "generated boards"

    kind: Literal["minesweeper"] = "minesweeper"
    rows: int = Field(default=6, ge=2)
    """Height of the field."""
    columns: int = Field(default=6, ge=2)
    """Width of the field."""
    mines: PositiveInt = 3
    """Mined cells."""
    opens: tuple[PositiveInt, PositiveInt] = (2, 7)
    """Least and most opens that a player who knew the mines would need; other boards are drawn again."""
    guess_free: bool = False
    """Only boards on which careful play, within the turns, never has to open a cell that may be mined."""
    board_seed: NonNegativeInt = 0
    """Another value gives other boards for every task."""
    max_turns: PositiveInt = 7
    """Turn budget of an episode; the cell that is open at the start does not count."""
    success_reward: float = 10.0
    """Reward of the open that shows the last safe cell. Each open has exactly one of these rewards."""
    mine_reward: float = -0.1
    """Reward of opening a mine, which ends the episode."""
    cell_reward: float = 0.5
    """Reward of an open that shows one cell."""
    cascade_reward: float = 2.0
    """Reward of an open that shows several cells."""
    no_effect_reward: float = -1.0
    """Reward of a cell that is open already or outside the field."""
    labels: bool = True
    """Number the rows and columns of the field that is shown."""
    brackets: bool = True
    """Spell actions ``(row, column)``; false: ``row column``, which small word-level models can repeat exactly."""

    @model_validator(mode="after")
    def _possible(self) -> MinesweeperSettings:
        cells = self.rows * self.columns
        if self.mines > cells - 2:
            raise ValueError(
                f"mines: {self.mines} leave nothing to open on {self.rows} x {self.columns}; set at most {cells - 2}"
            )
        count = count_layouts(cells, self.mines)
        if count > MOST_LAYOUTS:
            raise ValueError(
                f"{self.mines} mines on {self.rows} x {self.columns} can lie in {count} ways and the exact "
                f"probabilities count at most {MOST_LAYOUTS}; set a smaller field or fewer mines"
            )
        if self.opens[0] > self.opens[1]:
            raise ValueError(f"opens: {self.opens[0]} is more than {self.opens[1]}; give [least, most]")
        if self.opens[1] > self.max_turns:
            raise ValueError(
                f"opens allows boards that need {self.opens[1]} opens, but an episode has {self.max_turns} turns; "
                "raise max_turns or lower opens"
            )
        return self

    def build(self) -> MinesweeperSuite:
        """The suite; raises ``EnvDataError`` if the settings allow hardly any board."""
        from turnpoint.envs.minesweeper.suite import MinesweeperSuite

        return MinesweeperSuite(self)
