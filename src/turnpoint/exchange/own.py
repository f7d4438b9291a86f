"""What another format has no field for: kept beside its fields as JSON text, so that an episode comes back whole.

The text holds only what the format's own reader would get wrong or miss (rewards of single turns, token ids, pivots,
where it was forked from, ...). What another tool changed in the format's own fields therefore stays changed.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from turnpoint.exchange.lines import Json
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, episode_from_dict, episode_to_dict

_OF_TEXTS = ("distances_known", "final_distance", "final_observation", "pivots", "reflection")
"""What is said of turns by their number, or of the state after them: of other texts it would be wrong."""


def headline(episode: Episode) -> Json:
    """What a reader of another format's file may want to see of an episode at once, by our names."""
    task = episode.task
    return {
        "id": episode.id,
        "env": task.env,
        "task": task.id,
        "type": task.type,
        "success": episode.success,
        "stop": episode.stop.value if episode.stop else "",
    }


def remainder(shown: Episode, episode: Episode) -> str:
    """The fields of ``episode`` in which it differs from ``shown``, what the format's reader makes of its record."""
    base, full = episode_to_dict(shown), episode_to_dict(episode)
    turns = zip(base.pop("turns", []), full.pop("turns", []), strict=True)
    rest = _difference(base, full) | {
        "task": _difference(base["task"], full["task"]),
        "turns": [_difference(old, new) for old, new in turns],
        "texts": _texts(shown),
    }
    return json.dumps(rest, ensure_ascii=False, allow_nan=False, default=str)


def restored(shown: Episode, text: Any, report: ExchangeReport) -> Episode:
    """``shown`` with the fields of ``remainder``'s text; without it, or where it does not fit, as it is (counted)."""
    if text is None:
        return shown
    data = episode_to_dict(shown)
    try:
        rest = json.loads(text)
        told, texts = rest.pop("turns"), rest.pop("texts")
        rest["task"] = _merged(data["task"], rest["task"])
        if texts == _texts(shown):
            pairs = zip(data.pop("turns", []), told, strict=True)
            rest["turns"] = [_merged(old, new) for old, new in pairs]
        else:  # token ids, rewards, actions, distances: they are of other texts
            rest = {name: value for name, value in rest.items() if name not in _OF_TEXTS}
            report.changed["turnpoint's fields of turns whose texts were changed"] += 1
        return episode_from_dict(_merged(data, rest))
    except (ValueError, TypeError, KeyError, AttributeError):
        report.changed["turnpoint's own fields, which cannot be read"] += 1
        return shown


def _texts(shown: Episode) -> int:
    """A checksum of what was seen and said."""
    texts = [text for turn in shown.turns for text in (turn.observation.text, turn.response)]
    if shown.final_observation is not None:
        texts.append(shown.final_observation.text)
    return zlib.crc32(json.dumps(texts).encode())


def _difference(base: Json, full: Json) -> Json:
    """Fields to set, and None for those to remove."""
    return {name: full.get(name) for name in base | full if base.get(name) != full.get(name)}


def _merged(base: Json, rest: Json) -> Json:
    return {name: value for name, value in (base | rest).items() if value is not None}
