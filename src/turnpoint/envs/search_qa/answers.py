"""Exact match of answers, normalised as in SQuAD and everything after it (Rajpurkar et al. 2016)."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=65_536)
def normalise(answer: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Iterable[str]) -> bool:
    """Whether ``answer`` equals one of the accepted ones; an empty answer never does."""
    given = normalise(answer)
    return bool(given) and any(given == normalise(other) for other in accepted)


def holds(text: str, answer: str) -> bool:
    """Whether a text contains an answer as whole words, both normalised."""
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {normalise(text)} "
