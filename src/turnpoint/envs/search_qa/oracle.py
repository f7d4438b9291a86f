"""What is best in a question: with the answer in hand (``full``), or from the passages shown so far (``observed``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from turnpoint.envs.retrieval import Passage
from turnpoint.envs.search_qa import text
from turnpoint.envs.search_qa.answers import holds, normalise

_NAME = re.compile(r"[^\W\d_a-z][\w'’-]+(?: [^\W\d_a-z][\w'’-]+)*")
"""Words that begin with a capital, in a row."""
GIVE_UP = 6
"""Searches after which an observer answers from memory."""


class Progress(NamedTuple):
    """What an episode has shown."""

    queries: tuple[str, ...] = ()
    """Searches made, in order."""
    passages: tuple[Passage, ...] = ()
    """Everything shown, the latest search last, without repeats."""

    def after(self, query: str, found: Sequence[Passage]) -> Progress:
        """One more search."""
        known = {passage.id for passage in self.passages}
        return Progress((*self.queries, query), (*self.passages, *(p for p in found if p.id not in known)))


def full(answers: Sequence[str]) -> list[str]:
    """Every accepted answer that an action can hold."""
    unique = {normalise(a): a.strip() for a in reversed(answers) if normalise(a) and "</" not in a}
    return [text.answer(a) for a in reversed(unique.values())]


def observed(question: str, answers: Sequence[str], progress: Progress) -> list[str]:
    """An accepted answer that a shown passage holds; else a sensible search.

    The question itself is searched first, then names that the shown passages lead to. When ``GIVE_UP`` searches found
    nothing, the answer is given from memory.
    """
    shown = "\n".join(f"{passage.title}\n{passage.text}" for passage in progress.passages)
    given = full(answers)
    seen = [action for action, a in zip(given, _plain(given), strict=True) if holds(shown, a)]
    if progress.queries and seen:
        return seen
    if len(progress.queries) >= GIVE_UP:
        return given
    for query in (question, *next_queries(question, progress)):
        if query not in progress.queries and "</" not in query:
            return [text.search(query)]
    return given


def next_queries(question: str, progress: Progress) -> list[str]:
    """Names in the shown passages of which the question does not speak: first of passages that it does speak of."""
    passages = sorted(progress.passages, key=lambda passage: not holds(question, passage.title))
    names = [name for passage in passages for name in _NAME.findall(passage.text)]
    return [name for name in dict.fromkeys(names) if not holds(question, name) and len(name) > 3]


def _plain(actions: Sequence[str]) -> list[str]:
    return [parsed.argument for action in actions if (parsed := text.parse(action)) is not None]
