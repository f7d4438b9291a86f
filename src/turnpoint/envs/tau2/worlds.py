"""A domain's environment made anew, without reading its files or copying its whole database."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any


class Table:
    """The records of a table as they are at the start: to be looked at, and packed one by one to be copied."""

    def __init__(self, rows: dict[str, Any]) -> None:
        self.rows = rows
        self.packed = {key: pickle.dumps(row) for key, row in rows.items()}


_Routed: Any = MutableMapping
"""Every method by way of the five that are written out; typed so, since mypy holds the two bases to conflict."""


class Records(_Routed, dict[str, Any]):  # type: ignore[misc]
    """A table that copies a record when it is first asked for; the others stay shared.

    Whoever reads it as a bare dict in C, as pydantic's serialisation does, sees the shared ones and changes nothing.
    """

    def __init__(self, table: Table) -> None:
        dict.__init__(self, table.rows)
        self._table = table
        self._shared = set(table.rows)

    def __getitem__(self, key: str) -> Any:
        if key in self._shared:
            self[key] = pickle.loads(self._table.packed[key])
        return dict.__getitem__(self, key)

    def __setitem__(self, key: str, row: Any) -> None:
        self._shared.discard(key)
        dict.__setitem__(self, key, row)

    def __delitem__(self, key: str) -> None:
        self._shared.discard(key)
        dict.__delitem__(self, key)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self)

    def __len__(self) -> int:
        return dict.__len__(self)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key)

    def copy(self) -> dict[str, Any]:
        """A bare dict of this table's own records."""
        return dict(self.items())

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (self.copy(),)


class World:
    """Makes a domain's environments in one of its modes; they share what none of them has touched."""

    def __init__(self, construct: Callable[[], Any]) -> None:
        made = construct()
        database = vars(made.tools.db)
        self._tables = {
            name: Table(rows) for name, rows in database.items() if isinstance(rows, dict) and rows
        }
        names = {id(table.rows): name for name, table in self._tables.items()}
        packed = io.BytesIO()
        _Packer(packed, names).dump(made)
        self._packed = packed.getvalue()

    def __call__(self) -> Any:
        """Another one."""
        return _Unpacker(io.BytesIO(self._packed), self._tables).load()


class _Packer(pickle.Pickler):
    """Leaves tables out, under their names."""

    def __init__(self, file: io.BytesIO, names: dict[int, str]) -> None:
        super().__init__(file)
        self._names = names

    def persistent_id(self, found: Any) -> str | None:
        return self._names.get(id(found))


class _Unpacker(pickle.Unpickler):
    """Puts tables in, the same one wherever it stood."""

    def __init__(self, file: io.BytesIO, tables: dict[str, Table]) -> None:
        super().__init__(file)
        self._records = {name: Records(table) for name, table in tables.items()}

    def persistent_load(self, name: str) -> Records:
        return self._records[name]
