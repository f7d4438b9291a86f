"""Match a named action to an admissible one (PivotOPD, action resolution)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["exact", "articles", "containment", "overlap", "none"]

OVERLAP_THRESHOLD = 0.5
"""Token-set Jaccard similarity that the overlap level must exceed."""

_ARTICLES = frozenset({"a", "an", "the"})
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a reply was matched to, and how."""

    action: str | None
    """The admissible action, spelt as the environment spells it; None if nothing or more than one fits."""
    level: Level


UNRESOLVED = Resolution(None, "none")


def resolve_action(reply: str | None, admissible: Sequence[str]) -> Resolution:
    """Match ``reply`` to one of ``admissible``; the first level that decides wins.

    Levels: equality up to case and spacing; the same without articles; containment at word boundaries, in
    either direction, of exactly one admissible action; highest token-set Jaccard similarity if it is above
    0.5 and strictly ahead of the next.
    """
    wanted = _normal(reply or "")
    if not wanted or not admissible:
        return UNRESOLVED
    known = {_normal(action): action for action in reversed(admissible)}
    if wanted in known:
        return Resolution(known[wanted], "exact")
    bare = _without_articles(wanted)
    if not bare:
        return UNRESOLVED
    stripped = [(_without_articles(text), action) for text, action in known.items()]
    for level, matches in (
        ("articles", [action for text, action in stripped if text == bare]),
        ("containment", [a for text, a in stripped if _contains(bare, text) or _contains(text, bare)]),
    ):
        if len(matches) == 1:
            return Resolution(matches[0], level)  # type: ignore[arg-type]
    return _by_overlap(bare, stripped)


def _by_overlap(reply: str, admissible: list[tuple[str, str]]) -> Resolution:
    words = set(_WORD.findall(reply))
    scored = sorted(((_jaccard(words, set(_WORD.findall(text))), action) for text, action in admissible))
    best, action = scored[-1]
    if best <= OVERLAP_THRESHOLD or (len(scored) > 1 and scored[-2][0] == best):
        return UNRESOLVED
    return Resolution(action, "overlap")


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


def _without_articles(text: str) -> str:
    return " ".join(word for word in text.split() if word not in _ARTICLES)


def _jaccard(left: set[str], right: set[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def _contains(text: str, part: str) -> bool:
    """Whether ``part`` occurs in ``text`` without cutting a word at either end."""
    if not part or part not in text:
        return False
    before = r"(?<!\w)" if _WORD.match(part[0]) else ""
    after = r"(?!\w)" if _WORD.match(part[-1]) else ""
    return re.search(before + re.escape(part) + after, text) is not None
