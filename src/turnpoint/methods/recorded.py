"""Recorded episodes as training data: read, filtered, and freed of another model's tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from turnpoint.config import ConfigError
from turnpoint.records import Episode, RecordError, read_episodes


def read_recorded(path: Path, setting: str, *, solved_only: bool = True) -> list[Episode]:
    """Episodes of a JSONL file that have turns, as context only: replies as text, tokens and prompts left out.

    ``setting`` names the option in messages. Raises ``ConfigError`` if the file is missing, unreadable, or holds
    nothing of use.
    """
    try:
        episodes = read_episodes(path)
    except (OSError, RecordError) as error:
        raise ConfigError(f"{setting} is {path}, which cannot be read: {error}") from error
    usable = [e for e in episodes if e.turns and e.turns[0].index == 0 and (e.success or not solved_only)]
    if not usable:
        kind = "successful episode" if solved_only else "episode"
        raise ConfigError(
            f"{setting} is {path}, which holds {len(episodes)} episodes but no {kind} with its turns from the first "
            "on; record some with turnpoint eval --episodes"
        )
    return [_as_context(episode) for episode in usable]


def _as_context(episode: Episode) -> Episode:
    turns = [
        replace(turn, prompt_ids=(), response_ids=(), logprobs=(), messages=(), scores={}, snapshot=None)
        for turn in episode.turns
    ]
    return replace(episode, turns=turns)
