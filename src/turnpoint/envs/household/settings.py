"""Settings of the household environment and of its game generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from turnpoint.config import Settings
from turnpoint.envs.household.goals import TASK_TYPES
from turnpoint.envs.household.layout import task_rooms
from turnpoint.envs.household.statistics import ROOMS
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.household.suite import HouseholdSuite

Room = Literal["kitchen", "living room", "bedroom", "bathroom"]
TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]

CAPABILITIES = Capabilities(deterministic=True, snapshots=True, oracle=True, admissible=True)


class GeneratorSettings(Settings):
    """What generated games look like."""

    layout: Literal["fixed", "drawn"] = "drawn"
    """``fixed``: one room for all games, only objects and tasks differ; ``drawn``: a room per game."""
    layout_seed: NonNegativeInt = 0
    """Another value gives another fixed room and other games for every seed."""
    receptacles: tuple[int, int] = (8, 14)
    """Least and most receptacles of a room."""
    objects: tuple[int, int] = (8, 16)
    """Least and most objects of a room, the ones of the task and a lamp included."""
    object_types: PositiveInt | None = None
    """Only this many types of objects exist (a small closed vocabulary); unset: all that real rooms have."""
    rooms: tuple[Room, ...] = ROOMS  # type: ignore[assignment]
    """Kinds of rooms; a fixed layout mixes them into one room."""
    task_types: tuple[TaskType, ...] = TASK_TYPES  # type: ignore[assignment]
    """Task types, given to the seeds in turn."""
    shared_locations: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of receptacles that stand where another one stands, as in most real games."""
    temptations: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of games with objects that look useful and spoil the episode when they are picked up."""
    traps: int = Field(default=6, ge=1, le=20)
    """Tempting objects per tempting game; all but one (if there are several) can never be put down again."""

    @model_validator(mode="after")
    def _possible(self) -> GeneratorSettings:
        for name, (least, most), low, high in (
            ("receptacles", self.receptacles, 2, 60),
            ("objects", self.objects, 2, 90),
        ):
            if not low <= least <= most <= high:
                raise ValueError(
                    f"{name}: {least}..{most} is not a range within {low}..{high}; give [least, most]"
                )
        if not self.rooms or not self.task_types:
            raise ValueError("rooms and task_types need at least one entry each")
        if self.layout == "drawn":
            for kind in self.task_types:
                if not set(task_rooms(kind)) & set(self.rooms):
                    raise ValueError(
                        f"task type {kind} needs one of the rooms {', '.join(task_rooms(kind))}; add one to "
                        "rooms, or leave the task type out, or set layout: fixed"
                    )
        return self


class HouseholdSettings(EnvSettings):
    """Household tasks of ALFWorld: generated games, or released ones from a folder."""

    capabilities: ClassVar[Capabilities] = CAPABILITIES
    data: ClassVar[str] = "generated games; released ALFWorld files through games=FOLDER"
    prepared: ClassVar[str] = "data/alfworld"

    kind: Literal["household"] = "household"
    games: str = "generated"
    """``generated``, or a folder with released ``game.tw-pddl`` files at any depth."""
    train_split: str = "train"
    """Folder under ``games`` that holds the split ``train``; ``.`` takes everything."""
    valid_split: str = "valid_seen"
    """Folder under ``games`` that holds the split ``valid``."""
    generator: GeneratorSettings = GeneratorSettings()
    """What generated games look like; unused with a folder."""
    train_tasks: PositiveInt = 1000
    """How many generated games the split ``train`` has."""
    valid_tasks: PositiveInt = 200
    """How many generated games the split ``valid`` has; they share no seed with ``train``."""
    max_turns: PositiveInt = 30
    """Turn budget of an episode."""
    success_reward: float = 10.0
    """Reward of the turn that completes the task; every other turn gives 0."""
    short_start: bool = False
    """Leave the banner and the task out of the first observation (the prompt gives the task)."""
    state_reminder: bool = False
    """Append the task and what the agent holds to every observation; small models need it."""

    @model_validator(mode="after")
    def _generator_used(self) -> HouseholdSettings:
        if self.games != "generated" and self.generator != GeneratorSettings():
            raise ValueError(
                f"games is the folder '{self.games}', so the generator settings would be ignored; remove "
                "them or set games: generated"
            )
        return self

    def build(self) -> HouseholdSuite:
        """The suite; raises ``EnvDataError`` if a folder of games is missing or holds no usable game."""
        from turnpoint.envs.household.suite import HouseholdSuite

        return HouseholdSuite(self)
