from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs.checks.walks import HUGE, JUNK
from turnpoint.envs.repo_repair.actions import Command, Misunderstood, edit_line, edit_lines, parse
from turnpoint.envs.repo_repair.editing import edited
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.tree import Repository, Tree, TreeError


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("open a.py", Command("open", "a.py")),
        ("  OPEN a.py 3-9 ", Command("open", "a.py", 3, 9)),
        ("open a.py 3 - 9", Command("open", "a.py", 3, 9)),
        ("open a.py 7", Command("open", "a.py", 7, 7)),
        ("list", Command("list")),
        ("search def f(x) in src/a.py", Command("search", "src/a.py", text="def f(x)")),
        ("search for x in items", Command("search", text="for x in items")),
        ("edit a.py 3: x = 1", Command("edit", "a.py", 3, 0, "x = 1")),
        ("edit a.py 3: d = {1: 2}", Command("edit", "a.py", 3, 0, "d = {1: 2}")),
        ("edit a.py 3-4\nx = 1\n\ny = 2", Command("edit", "a.py", 3, 4, "x = 1\n\ny = 2\n")),
        ("edit a.py 3-4\r\nx = 1", Command("edit", "a.py", 3, 4, "x = 1\n")),
        ("edit a.py 3-4", Command("edit", "a.py", 3, 4)),
        ("edit a.py 3-4\n```python\nx = 1\n```", Command("edit", "a.py", 3, 4, "x = 1\n")),
        ("insert a.py 0\nimport os", Command("insert", "a.py", 0, text="import os\n")),
        (
            "replace a.py\n<<<<<<<\nx\n=======\ny\nz\n>>>>>>>",
            Command("replace", "a.py", text="y\nz\n", old="x\n"),
        ),
        ("replace a.py\n<<<<<<<\nx\n=======\n>>>>>>>", Command("replace", "a.py", old="x\n")),
        ("create b.py\nx = 1\n", Command("create", "b.py", text="x = 1\n")),
        ("undo a.py", Command("undo", "a.py")),
        ("test", Command("test")),
        ("test all", Command("test", text="all")),
        ("test tests/t.py::test_a[x y]", Command("test", text="tests/t.py::test_a[x y]")),
        ("submit", Command("submit")),
    ],
)
def test_what_is_understood(action: str, command: Command) -> None:
    assert parse(action) == command


@pytest.mark.parametrize(
    "action",
    [
        *JUNK, HUGE, "open", "open a.py 0", "open a.py 4-3", "open a.py x", "edit a.py", "edit a.py x: y",
        "insert a.py", "insert a.py 1", "replace a.py", "replace a.py\nx", "search", "submit now",
        "submit\nnow", "replace a.py\n<<<<<<<\n\n=======\nx\n>>>>>>>", "open a.py " + "9" * 30,
    ],
)  # fmt: skip
def test_what_is_not(action: str) -> None:
    with pytest.raises(Misunderstood):
        parse(action)


@given(st.text(alphabet="abedit opnlsr:0123-9\n<=>`.#", max_size=60))
def test_nothing_but_misunderstood_is_raised(text: str) -> None:
    for action in (text, f"edit {text}", f"replace a.py\n{text}", f"search {text}"):
        try:
            parse(action)
        except Misunderstood:
            continue


LINES = st.lists(st.sampled_from(["x = 1", "", "    y", "}", "# end", "edit a.py 1"]), min_size=1, max_size=8)


@given(LINES, st.data())
def test_edits_do_to_lines_what_lists_do(lines: list[str], data: st.DataObject) -> None:
    tree = Tree(Repository("r", {"a.py": File("".join(f"{line}\n" for line in lines).encode())}))
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first - 1, len(lines)))
    new = data.draw(LINES.filter(lambda some: some[-1].strip() != ""))
    after = edited(tree, parse(edit_lines("a.py", first, last, "\n".join(new))))
    assert after.lines("a.py") == [*lines[: first - 1], *new, *lines[last:]]


def test_a_line_keeps_its_indentation() -> None:
    tree = Tree(Repository("r", {"a.py": File(b"if x:\n    y = 1\n")}))
    assert edited(tree, parse(edit_line("a.py", 2, "z = 2"))).text("a.py") == "if x:\n    z = 2\n"


def test_replace_needs_one_place() -> None:
    tree = Tree(Repository("r", {"a.py": File(b"x\ny\nx\nz")}))

    def replace(old: str) -> str:
        return edited(tree, parse(f"replace a.py\n<<<<<<<\n{old}\n=======\nw\n>>>>>>>")).text("a.py")

    assert replace("y") == "x\nw\nx\nz"
    assert replace("z") == "x\ny\nx\nw"
    for old in ("x", "absent"):
        with pytest.raises(TreeError, match="must occur once"):
            replace(old)


@pytest.mark.parametrize(
    "action", ["edit a.py 2-3\nx", "edit a.py 3: x", "insert a.py 3\nx", "undo a.py", "edit b.py 1: x"]
)
def test_edits_outside_the_file_are_answered(action: str) -> None:
    tree = Tree(Repository("r", {"a.py": File(b"x\ny\n")}))
    with pytest.raises(TreeError):
        edited(tree, parse(action))
