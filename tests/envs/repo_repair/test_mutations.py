from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs.repo_repair.mutations import mutations
from turnpoint.envs.repo_repair.prepare import unbundle
from turnpoint.envs.repo_repair.settings import SAMPLES

BUNDLES = sorted(SAMPLES.parent.glob("*.txt"))
SOURCES = [file.data.decode() for bundle in BUNDLES for file in unbundle(bundle).values()]
CLOSED = (
    "comparison",
    "boolean operator",
    "boolean constant",
    "negation",
    "loop control",
    "swapped arguments",
)
"""Rules that always lead back."""


def changed(source: str) -> set[str]:
    return {m.text.strip() for m in mutations(source)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", {"x = a <= b", "x = a > b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a not in b", {"x = a in b"}),
        ("x = a - b", {"x = a + b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 0", {"x = 1"}),
        ("x = True", {"x = False"}),
        ("f(a, b)", {"f(b, a)", "return f(a, b)"}),
        ("x += y", {"x -= y"}),
        ("x = 'ä' < b", {"x = 'ä' <= b", "x = 'ä' > b"}),
    ],
)
def test_rules(line: str, expected: set[str]) -> None:
    inside = changed(f"def f(a, b, x, y):\n    {line}\n")
    assert inside == expected


def test_statements() -> None:
    source = "def f(a):\n    if a:\n        return a\n    elif not a:\n        return f(a)\n"
    assert changed(source) == {"if not a:", "a", "elif a:", "f(a)"}


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_every_mutation_changes_one_line_and_can_be_undone(source: str) -> None:
    lines = source.split("\n")
    for found in mutations(source):
        after = [*lines[: found.line - 1], found.text, *lines[found.line :]]
        ast.parse("\n".join(after))
        assert found.text != lines[found.line - 1]
        if found.rule in CLOSED:
            back = {(m.line, m.text) for m in mutations("\n".join(after))}
            assert (found.line, lines[found.line - 1]) in back, found


def test_faults_are_many_and_in_a_fixed_order() -> None:
    for source in SOURCES:
        found = mutations(source)
        assert found == mutations(source)
        assert found == sorted(found)
        assert len({(m.line, m.text) for m in found}) == len(found)
    assert sum(len(mutations(source)) for source in SOURCES) > 300


@given(st.text(alphabet="if x<=:()\n 01ndortre", max_size=40))
def test_any_text_is_answered(text: str) -> None:
    mutations(text)


def test_two_lines_are_left_alone() -> None:
    assert mutations("x = (a <\n     b)\n") == []
