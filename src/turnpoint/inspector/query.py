"""The filter line of the terminal view: words to search, and ``name:value`` terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnpoint.inspector.cells import STOPS

Json = dict[str, Any]
Test = Callable[[Json], bool]

TERMS: dict[str, Test] = {
    "is:solved": lambda e: e.get("success") is True,
    "is:failed": lambda e: e.get("success") is False,
    "is:open": lambda e: e.get("success") is None,
    "is:branch": lambda e: e["kind"] == "recovery",
    "is:retry": lambda e: bool(e.get("attempt")),
    "has:pivot": lambda e: bool(e.get("pivots")),
    "has:oracle": lambda e: bool(e.get("oracle")),
    "has:invalid": lambda e: bool(e.get("invalid")),
    "has:lost": lambda e: None in e.get("distances", ()),
}
"""Terms without a free value."""
_FIELDS: dict[str, Callable[[Json], str]] = {
    "step": lambda e: str(e.get("step", 0)),
    "type": lambda e: str(e.get("type", "")),
    "origin": lambda e: str(e["o"]),
    "stop": lambda e: str(e.get("stop", "")),
}
HELP = "words, step:3, type:NAME, origin:eval, stop:max_turns, " + ", ".join(TERMS) + "; ! before a term: not"


class QueryError(ValueError):
    """A term that does not exist; the message lists those that do."""


def parse(text: str) -> list[Test]:
    """Tests that an entry must all pass. Raises ``QueryError`` for an unknown term."""
    return [_parse_term(term) for term in text.lower().split()]


def _parse_term(term: str) -> Test:
    if term.startswith("!") and len(term) > 1:
        inner = _parse_term(term[1:])
        return lambda entry: not inner(entry)
    if term in TERMS:
        return TERMS[term]
    name, colon, value = term.partition(":")
    if colon and name in _FIELDS:
        field = _FIELDS[name]
        return lambda entry: field(entry).lower() == value
    if colon and name in ("is", "has"):
        raise QueryError(f"there is no term {term}; use {HELP}")
    return lambda entry: term in _text(entry)


def _text(entry: Json) -> str:
    stop = STOPS.get(entry.get("stop", ""), "")
    return f"{entry['id']} {entry['title']} {entry['task']} {entry.get('type', '')} {stop}".lower()


def select(entries: Sequence[Json], text: str) -> list[Json]:
    """Entries that pass; branches stay under their episodes unless ``is:branch`` asks for them."""
    tests = parse(text)
    if "is:branch" not in text:
        tests.append(lambda entry: not entry.get("nested"))
    return [entry for entry in entries if all(test(entry) for test in tests)]
