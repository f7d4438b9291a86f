"""Dependencies point downwards only; heavy packages stay in their rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "turnpoint"

MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "records": set(),
    "credit": {"records"},
    "envs": {"config", "records"},
    "prompts": {"config", "records"},
    "policy": {"config", "records"},
    "teachers": {"config", "envs", "policy.protocol", "policy", "prompts", "records"},
    "rollouts": {"config", "envs", "policy", "prompts", "records"},
    "methods": {"config", "credit", "envs", "policy", "prompts", "records", "rollouts", "teachers.protocol"},
    "pivots": {"records", "rollouts", "envs"},
    "training": {
        "config",
        "envs",
        "methods",
        "pivots",
        "policy",
        "prompts",
        "records",
        "rollouts",
        "teachers",
    },
    "inspector": {"config", "pivots", "records", "training"},
    "testing": {
        "config",
        "envs",
        "policy",
        "prompts",
        "records",
        "rollouts",
        "teachers",
        "methods",
        "training",
    },
}
"""Rooms each room may import; ``cli`` may import all."""

TORCH_ROOMS = {"policy/local", "policy/small", "policy/loss.py"}
METHODS_NEVER = (
    "turnpoint.policy.local",
    "turnpoint.policy.small",
    "turnpoint.envs.household",
    "turnpoint.teachers.",
)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(imported module, whether only for type checking) of every import in a file."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            yield name, id(node) in typing_only


def files(room: str) -> list[Path]:
    return sorted((SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_import_only_what_lies_below(room: str) -> None:
    assert files(room), f"room {room} is empty"
    allowed = MAY_IMPORT[room] | {room}
    for path in files(room):
        for name, typing_only in imports(path):
            if not name.startswith("turnpoint.") or typing_only:
                continue
            inside = name.removeprefix("turnpoint.")
            fits = any(inside == item or inside.startswith(item + ".") for item in allowed)
            assert fits, f"{path.relative_to(SOURCE)} imports {name}, which room '{room}' may not"


def test_every_room_is_under_the_rule() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms == set(MAY_IMPORT) | {"cli"}


def test_methods_know_no_implementation() -> None:
    for path in files("methods"):
        for name, _ in imports(path):
            if name == "turnpoint.teachers.protocol":
                continue
            assert not name.startswith(METHODS_NEVER), f"{path.name} imports {name}"


def test_torch_is_imported_by_the_local_policy_only() -> None:
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE).as_posix()
        if any(relative.startswith(room) for room in TORCH_ROOMS):
            continue
        tree = ast.parse(path.read_text())
        for node in tree.body:  # lazy imports inside functions are fine
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heavy = [
                n for n in names if n.split(".")[0] in ("torch", "transformers", "safetensors", "tokenizers")
            ]
            assert not heavy, f"{relative} imports {heavy} at module level"


def test_the_command_line_starts_without_torch() -> None:
    modules = "turnpoint.cli, turnpoint.methods, turnpoint.training.settings"
    code = f"import sys; import {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
