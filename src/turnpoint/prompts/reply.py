"""Read a model's reply: reasoning dropped, the action taken out. Linear in the length of the reply."""

from __future__ import annotations

import re

_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_ACTION = re.compile(r"<(/?)action>", re.IGNORECASE)


def parse_action(text: str, tags: bool) -> str | None:
    """The action of a reply; None if it has none (an invalid turn).

    With ``tags`` it is the content of the last complete ``<action>…</action>`` outside the reasoning (of
    nested tags the innermost pair counts); without, the whole reply outside the reasoning. Blank is None.
    """
    answer = drop_reasoning(text)
    if not tags:
        return answer.strip() or None
    action: str | None = None
    opened: int | None = None
    for tag in _ACTION.finditer(answer):
        if not tag.group(1):
            opened = tag.end()
        elif opened is not None:
            action, opened = answer[opened : tag.start()].strip(), None
    return action or None


def drop_reasoning(text: str) -> str:
    """``text`` without its ``<think>…</think>`` blocks.

    A close without an open ends reasoning that the prompt began, so all before it goes; an open without a
    close is reasoning that was cut off, so all after it goes.
    """
    kept: list[str] = []
    inside, start = False, 0
    for tag in _THINK.finditer(text):
        if not tag.group(1):
            if not inside:
                kept.append(text[start : tag.start()])
            inside = True
        else:
            if not inside:
                kept.clear()
            inside, start = False, tag.end()
    if not inside:
        kept.append(text[start:])
    return "".join(kept)
