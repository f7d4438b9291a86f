"""Search-R1's tags: what an action means, and what is shown for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from turnpoint.envs.retrieval import Passage

INSTRUCTIONS = (
    "Answer the question. If you lack knowledge, call the search engine with <search>query</search>; the best passages "
    "come back between <information> and </information>. You can search as often as your turns allow. As soon as you "
    "know the answer, give it with <answer>answer</answer>: as short as possible, without explanation. This ends the "
    "episode."
)
MALFORMED = (
    "The action is invalid. To search, put the query between <search> and </search>. To answer, put the answer between "
    "<answer> and </answer>."
)
NOTHING = "No passage was found."
ENDED = "The question was answered already."
GIVEN = "You answered: {}"
QUESTION = "Question: {}"

Verb = Literal["search", "answer"]


class Action(NamedTuple):
    """A query or an answer, white space around it removed."""

    verb: Verb
    argument: str


def parse(action: str) -> Action | None:
    """The first complete ``<search>`` or ``<answer>``, as Search-R1 reads it; None if there is none or it is empty."""
    found: list[tuple[int, Verb, str]] = []
    verbs: tuple[Verb, ...] = ("search", "answer")
    for verb in verbs:
        start = action.find(f"<{verb}>")
        end = action.find(f"</{verb}>", start) if start >= 0 else -1
        if end >= 0:
            found.append((end, verb, action[start + len(verb) + 2 : end].strip()))
    if not found:
        return None
    # Generation stops at the first closing tag, so nothing behind it was meant.
    _, verb, argument = min(found)
    return Action(verb, argument) if argument else None


def search(query: str) -> str:
    """The action that searches."""
    return f"<search>{query}</search>"


def answer(text: str) -> str:
    """The action that answers."""
    return f"<answer>{text}</answer>"


def information(passages: Sequence[Passage], most: int) -> str:
    """Passages as Search-R1 shows them, each text cut at ``most`` characters."""
    lines = [
        f'Doc {number}(Title: "{passage.title}") {passage.text[:most].strip()}'
        for number, passage in enumerate(passages, start=1)
    ]
    return f"<information>{chr(10).join(lines) or NOTHING}</information>"
