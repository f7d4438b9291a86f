"""What an agent tries that draws its actions."""

from __future__ import annotations

import random
from functools import lru_cache

from turnpoint.envs.repo_repair.actions import edit_line
from turnpoint.envs.repo_repair.mutations import mutations
from turnpoint.envs.repo_repair.tree import Tree

_KINDS = {"open": 3, "test": 2, "edit": 4, "submit": 1}
_LARGEST = 20_000
"""Characters of a file up to which its mutations are looked for."""
_mutations = lru_cache(maxsize=256)(mutations)  # the same few files are drawn from again and again


def draw(tree: Tree, rng: random.Random) -> str:
    """Look at a file, run the tests, change a line by one of the rules that make faults, or submit."""
    paths = [path for path in tree.paths if path.endswith(".py")]
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind in ("test", "submit") or not paths:
        return kind if kind in ("test", "submit") else "list"
    path = rng.choice(paths)
    source = tree.text(path) if kind == "edit" else ""
    found = _mutations(source) if len(source) < _LARGEST else []
    if not found:
        return f"open {path}"
    change = rng.choice(found)
    return edit_line(path, change.line, change.text)
