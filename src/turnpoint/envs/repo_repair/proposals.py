"""Listed play: which changes of one line may be chosen, for models with a closed vocabulary."""

from __future__ import annotations

from functools import cached_property, lru_cache

from turnpoint.envs.repo_repair.actions import edit_line
from turnpoint.envs.repo_repair.builder import listed_changes, with_line
from turnpoint.envs.repo_repair.records import Change, Record
from turnpoint.envs.repo_repair.tree import Repository, Tree


class Proposals:
    """What can be done with the files of a task, one changed line at a time."""

    def __init__(self, record: Record, base: Repository) -> None:
        """``base``: the repository with its fault."""
        self.record = record
        tree = Tree(base)
        self.files = tuple(path for path in tree.paths if path.endswith(".py"))
        self._tree = tree
        self.changes = lru_cache(maxsize=64)(self._changes)

    def _changes(self, path: str) -> dict[str, Change]:
        """Changes of a file by the action that makes them; two with the same action are one."""
        if not self.files or path not in self.files or self.record.fault is None:
            return {}
        undone = self.record.fixes[0]
        found: dict[str, Change] = {}
        for change in listed_changes(self._tree.text(path), path, undone):
            found.setdefault(squeezed(edit_line(path, change.line, change.text)), change)
        return found

    @cached_property
    def solved(self) -> frozenset[str]:
        """Keys of the trees that are repaired: the builder tried every change that is listed."""
        trees = (self._tree.write(c.path, _changed(self._tree, c)) for c in self.record.fixes)
        return frozenset(tree.key for tree in trees)

    def actions(self, path: str) -> tuple[str, ...]:
        """The edits of an open file, in the order of its lines."""
        return tuple(edit_line(path, c.line, c.text) for c in self.changes(path).values())

    def fixing(self, path: str) -> tuple[str, ...]:
        """Those of them that repair it."""
        return tuple(
            edit_line(path, c.line, c.text) for c in self.changes(path).values() if c in self.record.fixes
        )


def _changed(tree: Tree, change: Change) -> str:
    return with_line(tree.text(change.path), change.line, change.text)


def squeezed(action: str) -> str:
    """An action without white space: a word-level tokenizer does not keep it."""
    return "".join(action.split())
