"""The prompt of a turn for showing: only what is new since the turn before, as messages and as exact tokens."""

from __future__ import annotations

from typing import Any

from turnpoint.inspector.text import clip, visible
from turnpoint.inspector.tokens import TokenTexts
from turnpoint.records import Turn


def shared_prefix(new: tuple[Any, ...], old: tuple[Any, ...]) -> int:
    """Length of the common prefix."""
    if new[: len(old)] == old:
        return len(old)
    same, end = 0, min(len(new), len(old))
    while same < end:  # halving: slices are compared at the speed of C
        middle = (same + end + 1) // 2
        if new[same:middle] == old[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def prompt_view(turn: Turn, before: Turn | None, texts: TokenTexts | None, limit: int) -> dict[str, Any]:
    """``messages``: [shared with the turn before, [[role, text, cut], ...]].

    ``prompt``: [tokens, shared with prompt and response of the turn before, text of the new ones, tokens cut].
    """
    view: dict[str, Any] = {}
    if turn.messages:
        same = shared_prefix(turn.messages, before.messages if before else ())
        new = [[visible(m.role), *clip(m.content, limit)] for m in turn.messages[same:]]
        view["messages"] = [same, new]
    if turn.prompt_ids:
        old = before.prompt_ids + before.response_ids if before else ()
        same = shared_prefix(turn.prompt_ids, old)
        fresh = turn.prompt_ids[same:]
        shown = "" if texts is None else "".join(texts.text(token) for token in fresh[:limit])
        view["prompt"] = [len(turn.prompt_ids), same, shown[:limit], max(0, len(fresh) - limit)]
    return view
