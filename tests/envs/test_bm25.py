"""The index against the formula computed for every document, and the analysis on known words."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs.analysis import _stem, lucene, words
from turnpoint.envs.bm25 import BM25, DECIMALS, IndexBuilder, stored_length
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.text_store import TextStoreWriter, open_store

TEXTS = st.lists(st.sampled_from(["red", "dress", "blue", "of", "shoes", "running"]), max_size=12).map(
    " ".join
)


def by_formula(texts: list[str], query: str, k1: float, b: float) -> list[float]:
    documents = [Counter(lucene(text)) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / len(lengths) or 1.0
    scores = []
    for document, length in zip(documents, lengths, strict=True):
        score = 0.0
        for term in lucene(query):
            holding = sum(term in other for other in documents)
            rarity = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            f = document[term]
            score += rarity * f / (f + k1 * (1 - b + b * length / mean)) if f else 0.0
        scores.append(score)
    return scores


@given(
    st.lists(TEXTS, min_size=1, max_size=15), TEXTS, st.sampled_from([(0.9, 0.4), (1.5, 0.75), (0.0, 0.0)])
)
@settings(max_examples=80, deadline=None)
def test_scores_follow_the_formula(texts: list[str], query: str, constants: tuple[float, float]) -> None:
    builder = IndexBuilder()
    for text in texts:
        builder.add(text)
    index = BM25(builder, np.array(builder.lengths, np.int32), k1=constants[0], b=constants[1])
    expected = by_formula(texts, query, *constants)
    found = dict(index.search(query, len(texts)))
    assert found.keys() == {number for number, score in enumerate(expected) if score > 0}
    for number, score in found.items():
        assert score == pytest.approx(expected[number], abs=2 * 10**-DECIMALS)
    ranked = [score for _, score in index.search(query, 3)]
    assert ranked == sorted(found.values(), reverse=True)[:3]


def test_ties_go_by_number_also_across_the_cut() -> None:
    builder = IndexBuilder()
    for text in ["red shoes"] * 7 + ["red red shoes"] + ["blue"] * 3:
        builder.add(text)
    index = BM25(builder, np.array(builder.lengths, np.int32))
    assert [number for number, _ in index.search("red", 4)] == [7, 0, 1, 2]


def test_lengths_lose_their_lower_bits() -> None:
    assert [stored_length(n) for n in range(41)] == list(range(41))
    assert [stored_length(n) for n in (41, 42, 55, 56, 59, 60, 1000)] == [40, 42, 54, 56, 56, 60, 984]
    # Growing, and never more than an eighth off.
    sizes = [stored_length(n) for n in range(5000)]
    assert sizes == sorted(sizes)
    assert all(n * 7 / 8 <= size <= n for n, size in enumerate(sizes))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The running shoes, of a women's size", ["run", "shoe", "women", "size"]),
        ("6.7-Ounce 1,000 U.S.A. don't", ["6.7", "ounc", "1,000", "u.s.a", "don't"]),
        ("ponies caresses relational conditional", ["poni", "caress", "relat", "condit"]),
        ("us as it is", ["us"]),  # words of two letters are not stemmed
        ("❤️ love 日本語", ["❤️", "love", "日", "本", "語"]),
        ("___ _a_ 28x28 usb-c", ["_a_", "28x28", "usb", "c"]),
        ("", []),
    ],
)
def test_terms_are_lucenes(text: str, terms: list[str]) -> None:
    assert lucene(text) == terms


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_can_be_analysed(text: str) -> None:
    assert all(word for word in words(text))
    lucene(text)


def test_threads_do_not_mix_their_words() -> None:
    """Words that nobody has asked for yet, so that each is stemmed while other threads stem theirs."""
    ends = ("ization", "fulness", "ational", "ously", "iveness", "ements")
    texts = [" ".join(f"{a}{b}lat{end}" for b in "bdfgk" for end in ends) for a in "abcdefghijklmnop"]
    _stem.cache_clear()
    alone = [lucene(text) for text in texts]
    _stem.cache_clear()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lucene, texts))
    finally:
        sys.setswitchinterval(interval)
    assert together == alone
    assert [lucene(text) for text in texts] == alone


def test_a_store_comes_back_from_its_file(tmp_path: Path) -> None:
    def write(path: Path | None):
        writer = TextStoreWriter(path)
        for number, text in enumerate(["red dress", "blue dress", "red shoes"]):
            writer.add(f"k{number}", {"text": text}, text)
        writer.add_items([{"n": 1}, {"n": 2}])
        return writer.finish({"kind": "test"})

    kept, stored = write(None), write(tmp_path / "deep" / "store.sqlite")
    stored.close()
    again = open_store(tmp_path / "deep" / "store.sqlite")
    for store in (kept, again):
        assert (store.count, store.items, store.facts["kind"]) == (3, 2, "test")
        assert store.record(1) == {"text": "blue dress"}
        assert (store.number("k2"), store.number("k9"), store.item(1)) == (2, None, {"n": 2})
        found = store.searcher(k1=0.9, b=0.4).search("red", 5)
        assert [number for number, _ in found] == [0, 2]
    assert kept.facts["sha256"] == again.facts["sha256"]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        again._base.execute("DELETE FROM records")


def test_a_search_survives_whatever_is_searched() -> None:
    builder = IndexBuilder()
    builder.add("red dress")
    index = BM25(builder, np.array(builder.lengths, np.int32))
    for query in ("", "\x00", "\ud800 red", "red " * 100_000, "[" * 50_000, "' OR 1=1 --"):
        assert index.search(query, 3) in ([], index.search("red", 3), [(0, pytest.approx(1, abs=1e9))])
    empty = BM25(IndexBuilder(), np.array([], np.int32))
    assert empty.search("red", 3) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvDataError, match="no file"):
        open_store(tmp_path / "none.sqlite")
    (tmp_path / "text").write_text("not a database" * 100)
    with pytest.raises(EnvDataError, match="not a prepared file"):
        open_store(tmp_path / "text")
    writer = TextStoreWriter(None)
    writer.add("a", {}, "x")
    with pytest.raises(EnvDataError, match="key 'a'"):
        writer.add("a", {}, "y")
