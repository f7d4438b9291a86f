from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.repo_repair.example import files, record, write
from turnpoint.envs.repo_repair.judge import graded, is_protected
from turnpoint.envs.repo_repair.records import Clone, read_tasks, write_tasks
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.settings import SAMPLES
from turnpoint.envs.repo_repair.tree import Repository, Tree


def test_what_is_written_is_read(tmp_path: Path) -> None:
    repositories = {
        "tool": files()
        | {"b.bin": File(b"\xff\0"), "to": File(b"tool.py", "link"), "x.sh": File(b"ls", "run")},
        "clone": Clone("/clones/x", "abc"),
    }
    tasks = (
        record(),
        record("other", repository="clone", fault=None, fixes=(), tests={"t.py": "x", "u.py": None}),
    )
    digest = write_tasks(tmp_path / "tasks.jsonl", {"seed": 3}, repositories, tasks)
    found = read_tasks(tmp_path / "tasks.jsonl")
    assert found.records == tasks
    assert found.repositories == repositories
    assert found.header["seed"] == 3
    assert found.sha256 == digest


def test_any_character_comes_back(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\x85d\udcff\ud800 é"
    tasks = (record(problem=odd),)
    write_tasks(tmp_path / "tasks.jsonl", {}, {"tool": files() | {odd: File(odd[:6].encode())}}, tasks)
    found = read_tasks(tmp_path / "tasks.jsonl")
    assert found.records == tasks
    assert found.repositories["tool"] == files() | {odd: File(odd[:6].encode())}


def test_lines_end_only_at_line_feeds(tmp_path: Path) -> None:
    place = write(tmp_path, record(problem="a<b"))
    for mark in "\u2028\u2029\x85":
        place.write_bytes(place.read_bytes().replace(b"a<b", f"a{mark}b".encode()))
        assert read_tasks(place).records[0].problem == f"a{mark}b"
        place.write_bytes(place.read_bytes().replace(f"a{mark}b".encode(), b"a<b"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[1:], "line 1"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 9'), *lines[1:]], "prepare it again"),
        (lambda lines: [*lines, "{"], "line 5"),
        (lambda lines: [*lines, '{"task": "x", "colour": 1}'], "line 5"),
        (lambda lines: [lines[0], *lines[2:]], "no repository of tool-000"),
        (lambda lines: lines[:2], "no tasks"),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, change: object, message: str) -> None:
    place = write(tmp_path)
    place.write_text("\n".join(change(place.read_text().splitlines())))  # type: ignore[operator]
    with pytest.raises(EnvDataError, match=message):
        read_tasks(place)


def test_an_absent_file_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(EnvDataError, match="turnpoint envs prepare repo_repair"):
        read_tasks(tmp_path / "absent.jsonl")


def test_samples_are_complete() -> None:
    found = read_tasks(SAMPLES)
    assert {task.split for task in found.records} == {"train", "valid"}
    assert len({task.id for task in found.records}) == len(found.records) >= 40
    for task in found.records:
        content = found.repositories[task.repository]
        assert not isinstance(content, Clone)
        assert task.fault is not None
        lines = content[task.fault.path].data.decode().split("\n")
        assert task.fixes[0] == type(task.fault)(task.fault.path, task.fault.line, lines[task.fault.line - 1])
        assert task.fault.text != task.fixes[0].text
        assert task.fail_to_pass
        assert task.pass_to_pass
        assert not set(task.fail_to_pass) & set(task.pass_to_pass)
        assert task.fixes[0].text.strip() not in task.problem
    json.dumps(found.header)


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py", "conftest.py", "src/conftest.py", "pytest.ini", "setup.cfg", "pyproject.toml", "a_test.py",
        "test_a.py", "sitecustomize.py", "_pytest/runner.py", "tests/data/x.json", "pytest.py",
    ],
)  # fmt: skip
def test_what_decides_over_tests_is_protected(path: str) -> None:
    assert is_protected(path)
    tree = Tree(Repository("tool", files()))
    assert graded(tree.write(path, "x = 1\n").write("tool.py", "y\n"), record()).changes == {"tool.py": "y\n"}


def test_hidden_tests_are_put_in_and_gold_files_stay() -> None:
    tree = (
        Tree(Repository("tool", files())).write("tests/test_tool.py", "cheat\n").write("setup.cfg", "[x]\n")
    )
    task = record(
        tests={"tests/test_tool.py": "hidden\n", "tests/new.py": "more\n"}, gold={"setup.cfg": "[y]\n"}
    )
    assert graded(tree, task).changes == {
        "setup.cfg": "[x]\n",
        "tests/new.py": "more\n",
        "tests/test_tool.py": "hidden\n",
    }
