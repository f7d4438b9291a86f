"""The tree of executed actions stays small and never mixes states up."""

from __future__ import annotations

from turnpoint.records import Task
from turnpoint.teachers.memory import OracleMemory


def test_common_beginnings_share_nodes_and_others_do_not() -> None:
    memory, task = OracleMemory(), Task("t", "toy")
    first, second = memory.path(task, ["a", "b", "c"]), memory.path(task, ["a", "b", "d", "c"])
    assert first[:3] == second[:3]
    assert len({*first, *second}) == 6
    assert not set(first) & set(memory.path(Task("t", "toy"), ["a", "b", "c"]))


def test_memory_is_forgotten_at_its_limit() -> None:
    memory, task = OracleMemory(limit=10), Task("t", "toy")
    memory.distances[memory.path(task, [str(n) for n in range(20)])[-1]] = 3
    memory.best[(1, "full")] = ["x"]
    nodes = memory.path(task, ["0"])
    assert (nodes, memory.distances, memory.best) == ([1, 2], {}, {})


def test_repeated_paths_do_not_grow_it() -> None:
    memory, task = OracleMemory(limit=10), Task("t", "toy")
    nodes = memory.path(task, ["a", "b"])
    for _ in range(100):
        assert memory.path(task, ["a", "b"]) == nodes
