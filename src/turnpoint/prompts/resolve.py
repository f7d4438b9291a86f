"""Match a named action to an admissible one (PivotOPD, action resolution)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["exact", "articles", "containment", "overlap", "none"]

OVERLAP_THRESHOLD = 0.5
"""Token-set Jaccard similarity that the overlap level must exceed."""

_ARTICLES = frozenset({"a", "an", "the"})
_WORD = re.compile(r"\w+")
_OPENING, _CLOSING, _COMMA = (re.compile(rf"\s*({marks})\s*") for marks in (r"[(\[{]", r"[)\]}]", ","))
_PUNCTUATION = re.compile(r"[\s,()\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a reply was matched to, and how."""

    action: str | None
    """The admissible action, spelt as the environment spells it; None if nothing or more than one fits."""
    level: Level


UNRESOLVED = Resolution(None, "none")


def resolve_action(reply: str | None, admissible: Sequence[str]) -> Resolution:
    """Match ``reply`` to one of ``admissible``; the first level that decides wins.

    Levels: equality up to case and spacing, also that around commas and brackets; the same without articles and
    brackets; containment at word boundaries, in either direction, of exactly one admissible action; highest
    token-set Jaccard similarity if it is above 0.5 and strictly ahead of the next. A reply that is a list, of
    commands (``up, up``) or numbers (``(3, 4)``), means all of it: it is not matched to a part of itself, nor to
    the same words in another order.
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
    whole = _is_list(bare, (text for text, _ in stripped))
    equal = [
        a for text, a in stripped if text == bare or (whole and _unbracketed(text) == _unbracketed(bare))
    ]
    if len(equal) == 1:
        return Resolution(equal[0], "articles")
    if whole:
        return UNRESOLVED
    parts = [action for text, action in stripped if _contains(bare, text) or _contains(text, bare)]
    if len(parts) == 1:
        return Resolution(parts[0], "containment")
    return _by_overlap(bare, stripped)


def same_action(one: str, other: str, admissible: Sequence[str] | None = None) -> bool:
    """Whether two spellings name one command: they differ at most in case, spacing, commas and brackets.

    Two different admissible actions are never the same, however alike they are spelt.
    """
    left, right = _normal(one), _normal(other)
    if left == right:
        return True
    known = {_normal(action) for action in admissible or ()}
    if left in known and right in known:
        return False
    return _words(left) == _words(right) != []


def _by_overlap(reply: str, admissible: list[tuple[str, str]]) -> Resolution:
    words = set(_WORD.findall(reply))
    scored = sorted(((_jaccard(words, set(_WORD.findall(text))), action) for text, action in admissible))
    best, action = scored[-1]
    if best <= OVERLAP_THRESHOLD or (len(scored) > 1 and scored[-2][0] == best):
        return UNRESOLVED
    return Resolution(action, "overlap")


def _normal(text: str) -> str:
    """Lower case, one space between words, after a comma and outside brackets, none inside brackets."""
    text = " ".join(text.lower().split())
    text = _CLOSING.sub(r"\1 ", _OPENING.sub(r" \1", text))
    return " ".join(_COMMA.sub(", ", text).split())


def _words(text: str) -> list[str]:
    return [word for word in _PUNCTUATION.split(text) if word]


def _unbracketed(text: str) -> str:
    return text.strip("()[]{} ")


def _is_list(reply: str, admissible: Iterable[str]) -> bool:
    """Whether the reply is nothing but numbers, and commands or their parts, with commas between them."""
    parts = [part for part in map(_unbracketed, reply.split(",")) if part]
    if len(parts) < 2:
        return False
    known = {_unbracketed(part) for text in admissible for part in text.split(",")}
    return all(part in known or part.isdecimal() for part in parts)


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
