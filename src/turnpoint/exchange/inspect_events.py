"""Branches in the events of an Inspect sample: where an episode was forked from another.

As Inspect's own ``timeline_branch`` writes it: an anchor at the branch point, and a span of type ``branch`` with a
branch event that names the anchor. The anchor is ``PARENT#TURN``; the parent is a sample of its own, so that the
event's metadata name it as well.
"""

from __future__ import annotations

from typing import Any

from turnpoint.exchange.lines import Json
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Fork

_STRUCTURE = ("anchor", "span_begin", "span_end")
"""Events that only say where others stand."""


def branch_events(fork: Fork, now: str) -> list[Json]:
    """Events of an episode that was forked before turn ``fork.turn`` of ``fork.episode``; ``now``: ISO time."""
    anchor = f"{fork.episode}#{fork.turn}"
    span = f"branch-{anchor}"
    # every event has these: what is left out, Inspect fills in with its own clock
    common = {"timestamp": now, "working_start": 0.0}
    place = {"episode": fork.episode, "turn": fork.turn}
    # from_span is of older versions, which require it; newer ones drop it
    branch = {"event": "branch", "from_anchor": anchor, "from_span": fork.episode, "metadata": place}
    events: list[Json] = [
        {"event": "anchor", "anchor_id": anchor},
        {"event": "span_begin", "id": span, "span_id": span, "type": "branch", "name": f"branch of {anchor}"},
        {**branch, "span_id": span},
        {"event": "span_end", "id": span, "span_id": span},
    ]
    return [{"uuid": f"{span}-{number}", **event, **common} for number, event in enumerate(events)]


def read_fork(events: Any, report: ExchangeReport) -> Fork | None:
    """Where a sample's episode was forked from, by its branch event; all other events that hold something are counted.

    Branches of other tools lie within one sample; an episode has one course, so that they are not kept.
    """
    fork = None
    for event in events if isinstance(events, list) else []:
        kind = event.get("event") if isinstance(event, dict) else None
        place = event.get("metadata") if kind == "branch" else None
        place = place if isinstance(place, dict) else {}
        if isinstance(place.get("episode"), str) and type(place.get("turn")) is int:
            fork = Fork(place["episode"], place["turn"])
        elif kind not in _STRUCTURE:
            report.changed[f"event of kind '{str(kind)[:40]}'"] += 1
    return fork
