"""What an editing command makes of a tree."""

from __future__ import annotations

from turnpoint.envs.repo_repair.actions import Command
from turnpoint.envs.repo_repair.tree import Tree, TreeError, clean


def edited(tree: Tree, command: Command) -> Tree:
    """The tree after an edit. Raises ``TreeError`` where it does not fit the file."""
    path = clean(command.path)
    match command.verb:
        case "create":
            return tree.write(path, command.text)
        case "undo":
            if path not in tree.changes:
                raise TreeError(f"{path} was not changed.")
            return tree.restored(path)
        case "replace":
            return tree.write(path, _replaced(path, tree.text(path), command))
    lines = tree.lines(path)
    if command.verb == "insert":
        if command.first > len(lines):
            raise TreeError(f"{path} has only {len(lines)} lines.")
        return tree.write(path, _joined([*lines[: command.first], command.text, *lines[command.first :]]))
    if not 1 <= command.first <= len(lines) or command.last > len(lines):
        raise TreeError(f"{path} has only {len(lines)} lines.")
    if command.last == 0:
        old = lines[command.first - 1]
        new = old[: len(old) - len(old.lstrip())] + command.text.strip()
        return tree.write(path, _joined([*lines[: command.first - 1], new, *lines[command.first :]]))
    return tree.write(path, _joined([*lines[: command.first - 1], command.text, *lines[command.last :]]))


def _replaced(path: str, text: str, command: Command) -> str:
    """The text with ``old`` replaced, whole lines of it where possible."""
    old, new = command.old, command.text
    if text.count(old) == 0:  # the last line of a file may have no end, and a part of a line has none
        old, new = old[:-1], new[:-1]
    count = text.count(old)
    if count != 1:
        raise TreeError(f"The old text occurs {count} times in {path}; it must occur once.")
    return text.replace(old, new)


def _joined(parts: list[str]) -> str:
    """Lines and blocks of lines as one text."""
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
