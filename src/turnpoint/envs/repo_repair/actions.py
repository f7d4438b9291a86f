"""The language of actions: one command in the first line, and for some a body below it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Verb = Literal["open", "search", "list", "edit", "replace", "insert", "create", "undo", "test", "submit"]

INSTRUCTIONS = """\
You repair a fault in a Python repository. Answer with one command at a time:
open PATH or open PATH FIRST-LAST: show a file, or some of its lines
list or list FOLDER: show which files there are
search TEXT or search TEXT in PATH: find the lines that hold TEXT
edit PATH FIRST-LAST, and below it the new text: replace these lines (no text: delete them)
edit PATH LINE: TEXT: replace one line, whose indentation is kept
insert PATH LINE, and below it text: put it after this line (0: at the top)
replace PATH, and below it <<<<<<<, the old text, =======, the new text, >>>>>>>, each mark on a line of its own: \
replace a text that occurs once
create PATH, and below it the text: write a whole file
undo PATH: bring the original file back
test, test all, or test PATH, test PATH::NAME: run the tests that must pass, all tests, or some
submit: hand the repository in; this ends the episode
The repair counts if the tests that fail now pass and those that pass now still do, as they are in the original \
repository; changes to tests and to settings of the test runner do not count."""
_RANGE = re.compile(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?\Z")
_EDIT_LINE = re.compile(r"edit\s+(\S+)\s+(\d{1,7})\s*:[ \t]?(.*)\Z", re.DOTALL)
_OLD, _BETWEEN, _NEW = "<<<<<<<", "=======", ">>>>>>>"
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Command:
    """One understood action."""

    verb: Verb
    path: str = ""
    first: int = 0
    last: int = 0
    """Lines, counted from 1; 0 = not given."""
    text: str = ""
    """New text, or what is searched, or which tests."""
    old: str = ""


class Misunderstood(ValueError):
    """An action is no command; the message is for the agent."""


def parse(action: str) -> Command:
    """Read an action. Raises ``Misunderstood``, and nothing else, for what is no command."""
    if len(action) > _LONGEST:
        raise Misunderstood(f"The command is longer than {_LONGEST} characters.")
    action = action.strip("\r\n ")
    head, _, body = action.replace("\r\n", "\n").partition("\n")
    words = head.split()
    if not words:
        raise Misunderstood("The command is empty.")
    reader = _READERS.get(words[0].lower())
    if reader is None:
        raise Misunderstood(f"There is no command {words[0][:40]!r}. Commands are {', '.join(_READERS)}.")
    return reader(words[1:], head, body)


def edit_line(path: str, line: int, text: str) -> str:
    """The action that replaces one line and keeps its indentation."""
    return f"edit {path} {line}: {text.strip()}"


def edit_lines(path: str, first: int, last: int, text: str) -> str:
    """The action that replaces lines; ``last < first`` inserts before ``first``."""
    if last < first:
        return f"insert {path} {first - 1}\n{text}".rstrip("\n")
    return f"edit {path} {first}-{last}\n{text}".rstrip("\n")


def _open(words: list[str], head: str, body: str) -> Command:
    path = _path(words, "open")
    first, last = _lines(words[1:]) if len(words) > 1 else (0, 0)
    return Command("open", path, first, last)


def _list(words: list[str], head: str, body: str) -> Command:
    return Command("list", words[0] if words else "")


def _search(words: list[str], head: str, body: str) -> Command:
    wanted = head.strip()[len("search") :].strip()
    text, mark, path = wanted.rpartition(" in ")
    if not mark or " " in path.strip() or "." not in path:
        text, path = wanted, ""
    if not text.strip():
        raise Misunderstood("Say what to search: search TEXT.")
    return Command("search", path.strip(), text=text.strip())


def _edit(words: list[str], head: str, body: str) -> Command:
    if found := _EDIT_LINE.match(head.strip()):
        path, line, text = found.groups()
        return Command("edit", path, int(line), 0, text.rstrip())
    path = _path(words, "edit")
    first, last = _lines(words[1:])
    return Command("edit", path, first, last, _body(body))


def _insert(words: list[str], head: str, body: str) -> Command:
    path = _path(words, "insert")
    if len(words) != 2 or not words[1].isdecimal():
        raise Misunderstood("Say after which line: insert PATH LINE.")
    text = _body(body)
    if not text:
        raise Misunderstood("Put the new text below the command.")
    return Command("insert", path, int(words[1][:7]), text=text)


def _replace(words: list[str], head: str, body: str) -> Command:
    path = _path(words, "replace")
    lines = body.strip("\n").split("\n")
    marks = [line.strip() for line in lines]
    if marks.count(_BETWEEN) != 1 or marks[0] != _OLD or marks[-1] != _NEW:
        raise Misunderstood(f"Below the command give {_OLD}, the old text, {_BETWEEN}, the new text, {_NEW}.")
    middle = marks.index(_BETWEEN)
    old, new = lines[1:middle], lines[middle + 1 : -1]
    if not "".join(old).strip():
        raise Misunderstood("The old text is empty.")
    return Command("replace", path, text="".join(f"{x}\n" for x in new), old="".join(f"{x}\n" for x in old))


def _create(words: list[str], head: str, body: str) -> Command:
    return Command("create", _path(words, "create"), text=_body(body))


def _undo(words: list[str], head: str, body: str) -> Command:
    return Command("undo", _path(words, "undo"))


def _test(words: list[str], head: str, body: str) -> Command:
    return Command("test", text=" ".join(words))


def _submit(words: list[str], head: str, body: str) -> Command:
    if words or body.strip():
        raise Misunderstood("submit stands alone.")
    return Command("submit")


def _path(words: list[str], verb: str) -> str:
    if not words:
        raise Misunderstood(f"Say which file: {verb} PATH.")
    return words[0]


def _lines(words: list[str]) -> tuple[int, int]:
    found = _RANGE.match("".join(words))
    if found is None:
        raise Misunderstood("Say which lines: PATH FIRST-LAST.")
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    if first < 1 or last < first:
        raise Misunderstood("Lines are counted from 1, and the first comes before the last.")
    return first, last


def _body(body: str) -> str:
    """The text below a command, with one line end; a code fence around all of it is dropped."""
    lines = body.split("\n")
    if len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "".join(f"{line}\n" for line in lines) if any(line.strip() for line in lines) else ""


_READERS = {
    "open": _open,
    "list": _list,
    "search": _search,
    "edit": _edit,
    "insert": _insert,
    "replace": _replace,
    "create": _create,
    "undo": _undo,
    "test": _test,
    "submit": _submit,
}
