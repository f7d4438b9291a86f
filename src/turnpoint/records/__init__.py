"""The data types every room shares, and their versioned JSONL form. This room imports no other."""

from turnpoint.records.chains import chains_of
from turnpoint.records.codec import EPISODE_VERSION, RecordError, episode_from_dict, episode_to_dict
from turnpoint.records.episode import (
    Attempt,
    Episode,
    EpisodeKind,
    Fork,
    Group,
    Pivot,
    Reflection,
    StopReason,
    Turn,
)
from turnpoint.records.jsonl import EpisodeReader, EpisodeWriter, ReadReport, read_episodes
from turnpoint.records.row import DivergenceSpec, Row, RowKind
from turnpoint.records.task import Message, Observation, Step, Task

__all__ = [
    "EPISODE_VERSION",
    "Attempt",
    "DivergenceSpec",
    "Episode",
    "EpisodeKind",
    "EpisodeReader",
    "EpisodeWriter",
    "Fork",
    "Group",
    "Message",
    "Observation",
    "Pivot",
    "ReadReport",
    "RecordError",
    "Reflection",
    "Row",
    "RowKind",
    "Step",
    "StopReason",
    "Task",
    "Turn",
    "chains_of",
    "episode_from_dict",
    "episode_to_dict",
    "read_episodes",
]
