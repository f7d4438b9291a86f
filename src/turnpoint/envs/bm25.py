"""BM25 over a closed set of texts, with Lucene's document lengths; exact, and small in memory.

Score of a document d for a query q (Robertson and Zaragoza 2009; Lucene's form without the factor k1 + 1):

    sum over terms t of q:  n_q(t) · ln(1 + (N − n_t + ½) / (n_t + ½)) · f / (f + k1 · (1 − b + b · |d| / mean))

with f occurrences of t in d, n_t documents with t, and |d| the length in terms. Lucene keeps |d| in one byte.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from turnpoint.envs.analysis import MOST_QUERY_CHARACTERS, MOST_TERMS, Analyse, lucene

DECIMALS = 4
"""Scores are equal if they agree to so many decimals; ties go by number, so that sums of floats decide nothing."""
_FREE = 24
"""Lengths up to here are kept exactly."""


class Postings(NamedTuple):
    """Where a term occurs."""

    documents: NDArray[np.int32]
    """Numbers, ascending."""
    counts: NDArray[np.uint16]
    """Occurrences in each."""


class Terms(Protocol):
    """Postings by term."""

    def postings(self, term: str) -> Postings | None:
        """None if no document has the term."""


def stored_length(length: int) -> int:
    """Length as Lucene's one byte brings it back: exact up to 40, then four significant bits."""
    rest = length - _FREE
    if rest < 16:
        return max(length, 0)
    shift = rest.bit_length() - 4
    return (rest >> shift << shift) + _FREE


@dataclass
class IndexBuilder:
    """Collects texts; about 6 bytes per posting and 4 per document while it does."""

    analyse: Analyse = lucene
    lengths: array[int] = field(default_factory=lambda: array("i"))
    """Terms of each document."""
    _documents: dict[str, array[int]] = field(default_factory=dict)
    _counts: dict[str, array[int]] = field(default_factory=dict)

    def add(self, text: str) -> int:
        """Index a text; gives its number."""
        number, total = len(self.lengths), 0
        for term, count in Counter(self.analyse(text)).items():
            if term not in self._documents:
                self._documents[term], self._counts[term] = array("i"), array("H")
            self._documents[term].append(number)
            self._counts[term].append(min(count, 65_535))
            total += count
        self.lengths.append(total)
        return number

    def terms(self) -> Iterator[tuple[str, Postings]]:
        """Every term in alphabetical order."""
        for term in sorted(self._documents):
            yield term, self._postings(term)

    def postings(self, term: str) -> Postings | None:
        """Of one term: a builder can be searched as it is."""
        return self._postings(term) if term in self._documents else None

    def _postings(self, term: str) -> Postings:
        return Postings(np.array(self._documents[term], np.int32), np.array(self._counts[term], np.uint16))


class BM25:
    """Searches an index."""

    def __init__(
        self,
        terms: Terms,
        lengths: NDArray[np.int32],
        *,
        k1: float = 0.9,
        b: float = 0.4,
        analyse: Analyse = lucene,
    ) -> None:
        """``lengths``: terms of each document, ``[N]``."""
        self.count = len(lengths)
        self._terms, self._analyse = terms, analyse
        mean = float(lengths.mean()) if self.count and lengths.any() else 1.0
        sizes, codes = np.unique(lengths, return_inverse=True)
        stored = np.array([stored_length(int(size)) for size in sizes], np.float64)
        self._saturation = (k1 * (1 - b + b * stored / mean)).astype(np.float32)[codes]

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """The best ``k`` documents that hold a term of the query, as (number, score), best first."""
        text = query[:MOST_QUERY_CHARACTERS].encode("utf-8", "replace").decode()  # no lone surrogates
        wanted = Counter(self._analyse(text)).most_common(MOST_TERMS)
        found = [(count, self._terms.postings(term)) for term, count in sorted(wanted)]
        scores = self._scores([(count, postings) for count, postings in found if postings is not None])
        return [] if scores is None else _best(scores, k)

    def _scores(self, found: list[tuple[int, Postings]]) -> NDArray[np.float64] | None:
        if not found or not self.count:
            return None
        scores = np.zeros(self.count)
        for times, (documents, counts) in found:
            rarity = math.log(1 + (self.count - len(documents) + 0.5) / (len(documents) + 0.5))
            scores[documents] += times * rarity * (counts / (counts + self._saturation[documents]))
        return scores


def _best(scores: NDArray[np.float64], k: int) -> list[tuple[int, float]]:
    matching = np.flatnonzero(scores > 0)
    if len(matching) > k:
        # Everything that may tie with the k-th after rounding stays in.
        least = np.partition(scores[matching], len(matching) - k)[len(matching) - k]
        matching = matching[scores[matching] >= least - 10.0**-DECIMALS]
    rounded = np.round(scores[matching], DECIMALS)
    order = np.lexsort((matching, -rounded))[:k]
    return [(int(matching[i]), float(rounded[i])) for i in order]
