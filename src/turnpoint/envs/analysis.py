"""Text analysis of a search engine, as Lucene's English analyser does it: words, stop words, Porter stems."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import lru_cache

import snowballstemmer

Analyse = Callable[[str], list[str]]
"""From a text to its index terms, repeats kept."""

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with",
    )
)
"""Lucene's default English stop words."""
LONGEST_WORD = 255
"""Longer runs of letters are cut into pieces of this length, as Lucene's tokenizer does."""
MOST_TERMS = 1024
"""Different terms of a query that count; Lucene refuses longer ones."""
MOST_QUERY_CHARACTERS = 20_000

_PICTOGRAPH = (
    "[©®‼⁉™ℹ↔-↙↩↪⌚⌛⌨⏏⏩-⏳⏸-⏺Ⓜ▪▫▶◀◻-◾☀-☄☎☑☔☕☘☝☠☢☣☦☪☮☯☸-☺♀♂♈-♓♟♠♣♥♦♨♻♾♿⚒-⚗⚙⚛⚜⚠⚡⚧⚪⚫⚰⚱⚽⚾⛄⛅⛈⛎⛏⛑⛓⛔⛩⛪⛰-⛵⛷-⛺⛽"
    "✂✅✈-✍✏✒✔✖✝✡✨✳✴❄❇❌❎❓-❕❗❣❤➕-➗➡➰➿⤴⤵⬅-⬇⬛⬜⭐⭕〰〽㊗㊙"
    "\U0001f000-\U0001f0ff\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a"
    "\U0001f201-\U0001f3fa\U0001f400-\U0001faff]"
)
_WORD = re.compile(
    # Pictographs, ideographs and kana stand alone; other words may hold one . ' : between letters, or one . , ; '
    # between digits.
    rf"{_PICTOGRAPH}[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?(?:\u200d{_PICTOGRAPH}\ufe0f?)*"
    r"|[぀-ヿ㐀-䶿一-鿿豈-﫿]"
    r"|[^\W぀-ヿ㐀-䶿一-鿿豈-﫿]+"
    r"(?:(?:(?<=[^\W\d_])[.:'’·](?=[^\W\d_])|(?<=\d)[.,;'’](?=\d))[^\W぀-ヿ㐀-䶿一-鿿豈-﫿]+)*"
)


class _Stemmers(threading.local):
    """A stemmer for each thread: one keeps the word at hand in itself, so that two threads would mix theirs."""

    def __init__(self) -> None:
        self.porter = snowballstemmer.stemmer("porter")


_STEMMERS = _Stemmers()


def words(text: str) -> list[str]:
    """Words in the order of the text, close to Unicode's word boundaries (UAX #29); runs of ``_`` are none."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group()
        if word.strip("_"):
            found += [word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD)]
    return found


def lucene(text: str) -> list[str]:
    """Index terms: possessives removed, lower case, without stop words, Porter stems."""
    terms = []
    for word in words(text):
        term = word.replace("’", "'")
        if term[-2:] in ("'s", "'S"):
            term = term[:-2]
        term = term.lower()
        if term and term not in STOP_WORDS:
            terms.append(_stem(term))
    return terms


@lru_cache(maxsize=200_000)
def _stem(term: str) -> str:
    return str(_STEMMERS.porter.stemWord(term)) if len(term) > 2 else term
