from __future__ import annotations

import pytest

from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.tree import MOST_FILES, Repository, Tree, TreeError, clean

BASE = Repository(
    "r",
    {
        "a.py": File(b"x\n"),
        "run.sh": File(b"ls\n", "run"),
        "to": File(b"/etc/passwd", "link"),
        "b.bin": File(b"\0"),
    },
)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../a.py", "a/../../b", ".git/config", "a/.git/hooks/x", "", ".", "a\nb", "x" * 400],
)
def test_paths_outside_the_tree_are_refused(path: str) -> None:
    with pytest.raises(TreeError):
        clean(path)
    with pytest.raises(TreeError):
        Tree(BASE).write(path, "x")


def test_paths_have_one_spelling() -> None:
    assert clean(" ./src//a.py ") == "src/a.py"


def test_a_tree_is_its_contents() -> None:
    tree = Tree(BASE)
    changed = tree.write("a.py", "y\n").write("c.py", "new\n")
    assert tree.text("a.py") == "x\n"
    assert changed.key != tree.key
    assert changed.write("a.py", "x\n").write("c.py", None).key == tree.key
    assert changed.restored("a.py").restored("c.py").key == tree.key
    assert changed.paths == ["a.py", "b.bin", "c.py", "run.sh", "to"]


def test_files_keep_their_mode() -> None:
    found = Tree(BASE).write("run.sh", "pwd\n").write("a.py", None).files()
    assert found["run.sh"] == File(b"pwd\n", "run")
    assert found["to"] == File(b"/etc/passwd", "link")
    assert "a.py" not in found


@pytest.mark.parametrize("path", ["to", "a.py/x"])
def test_links_are_not_followed_and_names_do_not_clash(path: str) -> None:
    with pytest.raises(TreeError):
        Tree(BASE).write(path, "x")


@pytest.mark.parametrize("path", ["to", "b.bin", "absent"])
def test_what_is_no_text_cannot_be_read(path: str) -> None:
    with pytest.raises(TreeError):
        Tree(BASE).text(path)


def test_changes_are_limited() -> None:
    tree = Tree(BASE)
    with pytest.raises(TreeError, match="larger"):
        tree.write("a.py", "x" * 2_000_000)
    for number in range(MOST_FILES):
        tree = tree.write(f"n{number}.py", "x")
    with pytest.raises(TreeError, match="files"):
        tree.write("one_more.py", "x")


def test_the_key_depends_on_where_a_text_ends() -> None:
    assert Tree(BASE).write("p", "a").write("q", "b").key != Tree(BASE).write("p", "a\0q\0").key
