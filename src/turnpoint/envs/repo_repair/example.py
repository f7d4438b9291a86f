"""The smallest repository with a fault, as a file of tasks: to try things out without a builder."""

from __future__ import annotations

from pathlib import Path

from turnpoint.envs.repo_repair.builder import BUILDER_VERSION
from turnpoint.envs.repo_repair.records import Change, Record, write_tasks
from turnpoint.envs.repo_repair.sandbox import File

CODE = (
    "def larger(a, b):\n    if a > b:\n        return a\n    return b\n\n\ndef half(x):\n    return x // 2\n"
)
TESTS = """\
from tool import half, larger


def test_larger():
    assert larger(1, 2) == 2


def test_larger_first():
    assert larger(3, 2) == 3


def test_half():
    assert half(5) == 2
"""
FAULT = Change("tool.py", 2, "    if a < b:")
GOLD = Change("tool.py", 2, "    if a > b:")
FAILING = ("tests/test_tool.py::test_larger", "tests/test_tool.py::test_larger_first")
PASSING = ("tests/test_tool.py::test_half",)


def files() -> dict[str, File]:
    return {"tool.py": File(CODE.encode()), "tests/test_tool.py": File(TESTS.encode())}


def record(name: str = "tool-000", **changes: object) -> Record:
    fixes = (GOLD, Change("tool.py", 2, "    if a >= b:"))
    fields: dict[str, object] = {
        "id": name,
        "repository": "tool",
        "problem": "larger() gives the smaller one.",
        "fail_to_pass": FAILING,
        "pass_to_pass": PASSING,
        "type": "comparison",
        "fault": FAULT,
        "fixes": fixes,
    }
    return Record(**(fields | changes))  # type: ignore[arg-type]


def write(folder: Path, *records: Record) -> Path:
    place = folder / "tasks.jsonl"
    chosen = records or (record(), record("tool-001", split="valid"))
    write_tasks(place, {"builder": BUILDER_VERSION}, {"tool": files()}, chosen)
    return place
