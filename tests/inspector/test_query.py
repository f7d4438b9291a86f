from __future__ import annotations

import pytest

from turnpoint.inspector.query import QueryError, select


def entry(name: str, **more: object) -> dict[str, object]:
    return {"id": name, "title": f"Put the {name} away", "task": "t", "kind": "rollout", "o": "eval", **more}


ENTRIES = [
    entry("mug", success=True, step=3, type="pick", stop="success"),
    entry("lamp", success=False, oracle=[1], distances=[2, None], stop="max_turns"),
    entry("key", attempt=1, pivots=[0], invalid=[2]),
    entry("twig", kind="recovery", nested=True),
    entry("orphan", kind="recovery"),
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["mug", "lamp", "key", "orphan"]),
        ("LAMP", ["lamp"]),
        ("put away is:solved", ["mug"]),
        ("is:failed has:oracle", ["lamp"]),
        ("!is:solved", ["lamp", "key", "orphan"]),
        ("is:open is:retry has:invalid has:pivot", ["key"]),
        ("is:branch", ["twig", "orphan"]),
        ("step:3 type:pick origin:eval", ["mug"]),
        ("has:lost", ["lamp"]),
        ("out of turns", ["lamp"]),
        ("stop:max_turns", ["lamp"]),
        ("nothing", []),
    ],
)
def test_terms(text: str, names: list[str]) -> None:
    assert [e["id"] for e in select(ENTRIES, text)] == names


def test_an_unknown_term_names_those_that_exist() -> None:
    with pytest.raises(QueryError, match="has:oracle"):
        select(ENTRIES, "has:wings")
