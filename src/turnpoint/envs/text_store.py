"""Records with a search index in one SQLite file: opened in milliseconds, and read only where it is needed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import zlib
from array import array
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from turnpoint.envs.bm25 import BM25, IndexBuilder, Postings
from turnpoint.envs.protocol import EnvDataError

FORMAT = 2
"""Raised whenever a file of an earlier version reads differently."""
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE records (number INTEGER PRIMARY KEY, key TEXT UNIQUE, body BLOB);
CREATE TABLE items (number INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE terms (term TEXT PRIMARY KEY, documents BLOB, counts BLOB) WITHOUT ROWID;
CREATE TABLE labels (label TEXT PRIMARY KEY, documents BLOB) WITHOUT ROWID;
"""
_SCRATCH = """
ATTACH DATABASE '' AS scratch;
PRAGMA scratch.journal_mode=OFF;
CREATE TABLE scratch.held (place INTEGER PRIMARY KEY, body BLOB);
"""
"""A file of SQLite's own that goes away with the connection: items wait there for their place."""


class TextStoreWriter:
    """Writes a store: records with the text they are found by, and items (tasks) without one."""

    def __init__(self, path: Path | None) -> None:
        """``path``: where the file goes, replaced if it is there; None keeps the store in memory."""
        self._path, self._part = path, None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._part = path.with_name(f"{path.name}.part")
            self._part.unlink(missing_ok=True)
        self._base = sqlite3.connect(self._part or ":memory:", check_same_thread=False)
        self._base.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;{_TABLES}{_SCRATCH}")
        self._index, self._hash, self._items, self._held = IndexBuilder(), hashlib.sha256(), 0, 0
        self._labels: dict[str, array[int]] = {}

    @property
    def records(self) -> int:
        """Records so far."""
        return len(self._index.lengths)

    def add(self, key: str, record: Any, text: str, labels: Iterable[str] = ()) -> int:
        """Add a record (plain JSON) that ``text`` and each of ``labels`` find; gives its number.

        Raises ``EnvDataError`` for a key that is taken.
        """
        body = _pack(record)
        try:
            self._base.execute(
                "INSERT INTO records VALUES (?, ?, ?)", (self.records, key, zlib.compress(body))
            )
        except sqlite3.IntegrityError as error:
            raise EnvDataError(f"two records have the key '{key}'; keys must be unique") from error
        self._hash.update(
            key.encode() + b"\0" + body + b"\0" + text.encode("utf-8", "backslashreplace") + b"\n"
        )
        for label in dict.fromkeys(labels):
            self._labels.setdefault(label, array("i")).append(self.records)
        return self._index.add(text)

    def add_items(self, items: Iterable[Any]) -> int:
        """Add items (plain JSON) in order; gives how many there are now."""
        for item in items:
            self._add_item(_pack(item))
        return self._items

    def hold(self, item: Any) -> int:
        """Keep an item outside of memory until ``add_held``; gives its place among those that are held."""
        self._base.execute("INSERT INTO held VALUES (?, ?)", (self._held, _pack(item)))
        self._held += 1
        return self._held - 1

    def add_held(self, places: Iterable[int]) -> int:
        """Add held items in this order; gives how many items there are now."""
        for place in places:
            row = self._base.execute("SELECT body FROM held WHERE place=?", (place,)).fetchone()
            self._add_item(row[0])
        return self._items

    def _add_item(self, body: bytes) -> None:
        self._base.execute("INSERT INTO items VALUES (?, ?)", (self._items, body))
        self._hash.update(b"item\0" + body + b"\n")
        self._items += 1

    def finish(self, meta: dict[str, Any]) -> TextStore:
        """Write the index and what the header says, and open the store."""
        for term, postings in self._index.terms():
            blobs = (postings.documents.tobytes(), postings.counts.tobytes())
            self._base.execute("INSERT INTO terms VALUES (?, ?, ?)", (term, *blobs))
        found = [(label, numbers.tobytes()) for label, numbers in sorted(self._labels.items())]
        self._base.executemany("INSERT INTO labels VALUES (?, ?)", found)
        facts = {"format": FORMAT, "records": self.records, "items": self._items} | meta
        facts["sha256"] = self._hash.hexdigest()
        self._base.execute("INSERT INTO meta VALUES ('facts', ?)", (_pack(facts).decode(),))
        lengths = np.array(self._index.lengths, np.int32).tobytes()
        self._base.execute("INSERT INTO meta VALUES ('lengths', ?)", (sqlite3.Binary(lengths),))
        self._base.commit()
        self._base.execute("DETACH DATABASE scratch")
        if self._path is None or self._part is None:
            return TextStore(self._base)
        self._base.close()
        self._part.replace(self._path)
        return open_store(self._path)


class TextStore:
    """A finished store; may be shared between threads."""

    def __init__(self, base: sqlite3.Connection, *, kept: int = 2048) -> None:
        """``kept``: records that stay unpacked in memory."""
        self._base, self._lock = base, threading.Lock()
        self.facts: dict[str, Any] = json.loads(self._one("SELECT value FROM meta WHERE name='facts'")[0])
        raw = self._one("SELECT value FROM meta WHERE name='lengths'")[0]
        self._lengths = np.frombuffer(raw, np.int32)
        self.record = lru_cache(maxsize=kept)(self._record)
        self._number = lru_cache(maxsize=4 * kept)(self._find)

    @property
    def count(self) -> int:
        """Records."""
        return int(self.facts["records"])

    @property
    def items(self) -> int:
        """Items."""
        return int(self.facts["items"])

    def number(self, key: str) -> int | None:
        """Number of the record with this key."""
        return self._number(key)

    def item(self, number: int) -> Any:
        """An item, by number."""
        return json.loads(self._one("SELECT body FROM items WHERE number=?", number)[0])

    def postings(self, term: str) -> Postings | None:
        """Where a term occurs."""
        row = self._row("SELECT documents, counts FROM terms WHERE term=?", term)
        if row is None:
            return None
        return Postings(np.frombuffer(row[0], np.int32), np.frombuffer(row[1], np.uint16))

    def labelled(self, label: str) -> tuple[int, ...]:
        """Numbers of the records with this label, ascending."""
        row = self._row("SELECT documents FROM labels WHERE label=?", label)
        return () if row is None else tuple(np.frombuffer(row[0], np.int32).tolist())

    def searcher(self, *, k1: float, b: float) -> BM25:
        """BM25 over the records' texts."""
        return BM25(self, self._lengths, k1=k1, b=b)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _record(self, number: int) -> Any:
        return json.loads(zlib.decompress(self._one("SELECT body FROM records WHERE number=?", number)[0]))

    def _find(self, key: str) -> int | None:
        row = self._row("SELECT number FROM records WHERE key=?", key)
        return None if row is None else int(row[0])

    def _row(self, query: str, *values: Any) -> Any:
        with self._lock:
            return self._base.execute(query, values).fetchone()

    def _one(self, query: str, *values: Any) -> Any:
        row = self._row(query, *values)
        if row is None:
            raise EnvDataError(f"the store has no row for {values or query}; prepare it again")
        return row


def open_store(path: Path) -> TextStore:
    """Open a file that a ``TextStoreWriter`` wrote. Raises ``EnvDataError`` if it is none, or of another version."""
    if not path.is_file():
        raise EnvDataError(f"there is no file '{path}'; make it with turnpoint envs prepare")
    base = sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=ro", uri=True, check_same_thread=False)
    try:
        base.execute("PRAGMA mmap_size=1073741824")
        store = TextStore(base)
    except (sqlite3.DatabaseError, ValueError) as error:
        base.close()
        raise EnvDataError(f"'{path}' is not a prepared file ({error}); make it again") from error
    if store.facts.get("format") != FORMAT:
        store.close()
        raise EnvDataError(
            f"'{path}' has format {store.facts.get('format')}, and this version reads {FORMAT}; prepare it again"
        )
    return store


def _pack(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
