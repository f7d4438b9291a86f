from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turnpoint.inspector.align import align


def detail(name: str, actions: str, fork: tuple[str, int] | None = None, reused: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {"id": name, "turns": [{"obs": ["o", 0], "action": a} for a in actions]}
    if fork:
        made["fork"] = list(fork)
    if reused:
        made["reused"] = reused
    return made


def rows(*details: dict[str, Any]) -> list[tuple[str, int]]:
    return [
        (row.detail["id"], row.shared) for row in align([{"id": d["id"]} for d in details], list(details))
    ]


def test_shared_beginnings_are_neighbours() -> None:
    found = rows(detail("a", "xyz"), detail("b", "pq"), detail("c", "xyw"), detail("d", "x"))
    assert found == [("d", 0), ("a", 1), ("c", 2), ("b", 0)]


def test_a_branch_continues_its_parent() -> None:
    found = rows(detail("p", "abcd"), detail("r", "xy", fork=("p", 2)))
    assert found == [("p", 0), ("r", 2)]


def test_an_attempt_that_holds_its_reused_turns_counts_from_the_start() -> None:
    found = align([{}, {}], [detail("p", "abcd"), detail("r", "abxy", fork=("p", 2), reused=2)])
    assert [(row.start, row.shared, len(row.path)) for row in found] == [(0, 0, 4), (0, 2, 4)]


def test_a_branch_without_its_parent_is_aligned_but_shares_nothing() -> None:
    found = rows(detail("r", "xy", fork=("gone", 2)), detail("s", "xy", fork=("gone", 2)))
    assert found == [("r", 0), ("s", 0)]


def test_forks_that_name_each_other_come_to_an_end() -> None:
    assert len(rows(detail("a", "x", fork=("b", 1)), detail("b", "y", fork=("a", 1)))) == 2


@given(st.lists(st.text("ab", max_size=8), min_size=1, max_size=12))
def test_no_episode_is_lost_and_every_shared_prefix_is_found(paths: list[str]) -> None:
    details = [detail(str(i), path) for i, path in enumerate(paths)]
    found = align([{"id": d["id"]} for d in details], details)
    assert sorted(row.detail["id"] for row in found) == sorted(d["id"] for d in details)
    text = ["".join(turn["action"] for turn in row.detail["turns"]) for row in found]
    for at, row in enumerate(found):
        longest = max((len(_common(text[at], earlier)) for earlier in text[:at]), default=0)
        assert row.shared == longest


def _common(a: str, b: str) -> str:
    return next((a[:i] for i in range(min(len(a), len(b)) + 1) if a[: i + 1] != b[: i + 1]), a)
