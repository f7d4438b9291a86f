"""Answers of teachers on disk: what was asked once of the same model is not asked, and paid for, again.

One SQLite file in write-ahead mode, safe for several processes on one machine (not on a network file system). A file
that is no such cache, or is damaged, is refused with a sentence and never changed. Every answer carries a checksum;
one that does not match counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError

AUTO = Path(".cache/turnpoint/teachers.sqlite")
"""Where answers are kept if the setting says ``auto``."""
MAGIC = 0x74757270
"""Says in the file's header that it is ours ("turp")."""
VERSION = 1
_HEADER = b"SQLite format 3\0"
_CHECK = 8
_FLUSH = 256
"""Hits after which the times of use are written."""
_SCHEMA = """
CREATE TABLE answers (key BLOB PRIMARY KEY, value BLOB NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE INDEX by_use ON answers (used);
CREATE TABLE total (bytes INTEGER NOT NULL);
INSERT INTO total VALUES (0);
CREATE TRIGGER added AFTER INSERT ON answers BEGIN UPDATE total SET bytes = bytes + NEW.size; END;
CREATE TRIGGER removed AFTER DELETE ON answers BEGIN UPDATE total SET bytes = bytes - OLD.size; END;
"""


def key_of(kind: str, identity: dict[str, Any], request: Any) -> bytes:
    """Key of an answer: ``kind`` of question, ``identity`` of who answers it, and everything that was asked."""
    text = json.dumps([VERSION, kind, identity, request], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


class TeacherCache:
    """Bytes by key, at most ``max_bytes`` of them; the least recently used go first."""

    def __init__(self, path: Path, section: str, max_bytes: int) -> None:
        """Open or make the file. Raises ``ConfigError`` that names ``section``'s settings."""
        self.path, self.max_bytes = path, max_bytes
        self.counts: Counter[str] = Counter()
        """hits, misses, evicted, and faults: reads and writes that failed and cost nothing but the saving."""
        self._section = section
        self._lock = threading.Lock()
        self._hits: dict[bytes, int] = {}
        self._connection: sqlite3.Connection | None = self._open()

    def _open(self) -> sqlite3.Connection:
        path, way_out = self.path, f"set {self._section}.cache to another path, or to off"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+") as file:
                file.seek(0)
                head = file.read(len(_HEADER))
        except OSError as error:
            raise ConfigError(
                f"{self._section}.cache is '{path}', which cannot be written: {error}; {way_out}"
            ) from error
        if head and head != _HEADER:
            raise ConfigError(
                f"{self._section}.cache is '{path}', which is no cache of teachers' answers; it was left as it "
                f"is: {way_out}"
            )
        connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except (sqlite3.DatabaseError, ConfigError) as error:
            connection.close()
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"{self._section}.cache '{path}' is damaged or locked ({' '.join(str(error).split())}); nothing in it "
                f"was changed: move the file away to begin a new one, or {way_out}"
            ) from error
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file is ours and whole; fill an empty one."""
        # In this order: another process may fill an empty file in between.
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        magic = connection.execute("PRAGMA application_id").fetchone()[0]
        if magic != MAGIC and not empty:
            raise ConfigError(
                f"{self._section}.cache is '{self.path}', a database of another program; it was left as it is: set "
                f"{self._section}.cache to another path, or to off"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if magic != MAGIC:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA application_id").fetchone()[0] != MAGIC:  # nobody was faster
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute(f"PRAGMA application_id = {MAGIC}")
            connection.execute("COMMIT")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise ConfigError(
                f"{self._section}.cache '{self.path}' has format {version}, this release reads {VERSION}; set "
                f"{self._section}.cache to another path"
            )
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def get(self, key: bytes) -> bytes | None:
        """The answer; None if there is none, or none that is whole."""
        with self._lock:
            row = self._try("SELECT value FROM answers WHERE key = ?", key)
            value = None if row is None else _unpack(key, row[0])
            self.counts["hits" if value is not None else "misses"] += 1
            if value is None:
                return None
            self._hits[key] = time.time_ns()
            if len(self._hits) >= _FLUSH:
                self._write(self._touch)
            return value

    def put(self, key: bytes, value: bytes) -> None:
        """Keep an answer; one of the same key is replaced."""
        with self._lock:
            if len(value) + _CHECK <= self.max_bytes:
                self._write(lambda connection: self._insert(connection, key, _pack(key, value)))

    def _insert(self, connection: sqlite3.Connection, key: bytes, packed: bytes) -> None:
        self._touch(connection)
        connection.execute("DELETE FROM answers WHERE key = ?", (key,))
        connection.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?)", (key, packed, len(packed), time.time_ns())
        )
        total = connection.execute("SELECT bytes FROM total").fetchone()[0]
        while total > self.max_bytes:
            row = connection.execute("SELECT key, size FROM answers ORDER BY used LIMIT 1").fetchone()
            connection.execute("DELETE FROM answers WHERE key = ?", (row[0],))
            total -= row[1]
            self.counts["evicted"] += 1

    def _touch(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "UPDATE answers SET used = ? WHERE key = ?", [(used, key) for key, used in self._hits.items()]
        )
        self._hits = {}

    def _try(self, statement: str, *values: Any) -> Any:
        """First row of a read; None if it failed."""
        if self._connection is None:
            self._connection = self._open()
        try:
            return self._connection.execute(statement, values).fetchone()
        except sqlite3.DatabaseError as error:
            self._fault(error)
            return None

    def _write(self, work: Any) -> None:
        """Do ``work`` in a transaction; if it fails nothing is changed, and the run goes on without."""
        if self._connection is None:
            self._connection = self._open()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                work(self._connection)
            except sqlite3.DatabaseError:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._fault(error)

    def _fault(self, error: sqlite3.DatabaseError) -> None:
        self.counts["faults"] += 1
        if self.counts["faults"] == 1:
            warnings.warn(
                f"{self._section}.cache '{self.path}' cannot be used ({error}); the teacher is asked instead, "
                "each time "
                "counted as cache_faults",
                RuntimeWarning,
                stacklevel=4,
            )

    def metrics(self) -> dict[str, float]:
        """Totals since it was opened."""
        return {f"cache_{name}": float(self.counts[name]) for name in ("hits", "misses", "evicted", "faults")}

    def close(self) -> None:
        """Write times of use and close the file; it opens again when it is needed. May be called twice."""
        with self._lock:
            if self._connection is not None:
                if self._hits:
                    self._write(self._touch)
                self._connection.close()
                self._connection = None


def _statements(script: str) -> list[str]:
    """Statements of a script, one a line."""
    return [line for line in script.splitlines() if line.strip()]


def _pack(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + value).digest()[:_CHECK] + value


def _unpack(key: bytes, packed: bytes) -> bytes | None:
    value = bytes(packed[_CHECK:])
    return value if _pack(key, value) == packed else None
