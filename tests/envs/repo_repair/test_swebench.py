from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.repo_repair import swebench
from turnpoint.envs.repo_repair.clones import git, read_clone
from turnpoint.envs.repo_repair.example import CODE, FAILING, PASSING, TESTS
from turnpoint.envs.repo_repair.patches import apply_patch, make_patch
from turnpoint.envs.repo_repair.records import Clone, read_tasks
from turnpoint.envs.repo_repair.sandbox import File
from turnpoint.envs.repo_repair.swebench import evaluate, instances_to_tasks, predictions, read_instances
from turnpoint.envs.repo_repair.tree import Repository, Tree

BROKEN = CODE.replace("a > b", "a < b")
OLD_TESTS = TESTS.split("def test_larger()")[0] + TESTS[TESTS.index("def test_half") :]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clones" / "owner__tool"
    (folder / "tests").mkdir(parents=True)
    (folder / "tool.py").write_text(BROKEN)
    (folder / "tests" / "test_tool.py").write_text(OLD_TESTS)
    (folder / "to").symlink_to("/etc/passwd")
    (folder / "run.sh").write_text("ls\n")
    (folder / "run.sh").chmod(0o755)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "base")


def row(clone: Path, **changes: Any) -> dict[str, Any]:
    base = {"tool.py": File(BROKEN.encode()), "tests/test_tool.py": File(OLD_TESTS.encode())}
    tree = Tree(Repository("tool", base))
    return {
        "instance_id": "owner__tool-1",
        "repo": "owner/tool",
        "base_commit": git(clone, "rev-parse", "HEAD").decode().strip(),
        "problem_statement": "larger() gives the smaller one.\n\nSee above.",
        "patch": make_patch(tree.write("tool.py", CODE)),
        "test_patch": make_patch(tree.write("tests/test_tool.py", TESTS)),
        "FAIL_TO_PASS": json.dumps(FAILING),
        "PASS_TO_PASS": json.dumps(PASSING),
        "version": "1.0",
    } | changes


def test_a_clone_is_read_at_its_commit(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD").decode().strip()
    (clone / "tool.py").write_text("later\n")
    files = read_clone(Clone(str(clone), head))
    assert files["tool.py"] == File(BROKEN.encode())
    assert files["to"] == File(b"/etc/passwd", "link")
    assert files["run.sh"].mode == "run"
    with pytest.raises(EnvError, match="failed"):
        read_clone(Clone(str(clone), "0" * 40))


def test_attributes_of_a_clone_take_nothing_away(clone: Path) -> None:
    (clone / ".gitattributes").write_text(
        "tests/ export-ignore\nversion.py export-subst\n*.txt text eol=crlf\n"
    )
    (clone / "version.py").write_text('commit = "$Format:%H$"\n')
    (clone / "empty.txt").write_text("")
    (clone / "crlf.bin").write_bytes(b"a\r\nb\0\n")
    (clone / "ÿ name\tx.txt").write_text("odd\n")
    commit(clone)
    files = read_clone(Clone(str(clone), "HEAD"))
    assert files["tests/test_tool.py"] == File(OLD_TESTS.encode())
    assert files["version.py"] == File(b'commit = "$Format:%H$"\n')
    assert files["empty.txt"] == File(b"")
    assert files["crlf.bin"] == File(b"a\r\nb\0\n")
    assert files["ÿ name\tx.txt"] == File(b"odd\n")


def test_a_submodule_is_no_file(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD").decode().strip()
    (clone / "sub").mkdir()
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    commit(clone)
    assert b"sub" in git(clone, "ls-tree", "--name-only", "HEAD")
    assert "sub" not in read_clone(Clone(str(clone), "HEAD"))


def test_a_clone_that_is_not_whole_is_refused(clone: Path) -> None:
    name = git(clone, "rev-parse", "HEAD:tool.py").decode().strip()
    (clone / ".git" / "objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(EnvError, match=r"tool\.py is missing|ls-tree"):
        read_clone(Clone(str(clone), "HEAD"))


def test_settings_of_the_user_do_not_count(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[diff]\n\tnoprefix = true\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    tree = Tree(Repository("tool", read_clone(Clone(str(clone), "HEAD")))).write("tool.py", CODE)
    assert apply_patch(tree.base.files, make_patch(tree)) == {"tool.py": CODE}
    assert "+++ b/tool.py" in make_patch(tree)


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_instances_become_tasks(tmp_path: Path, clone: Path, suffix: str) -> None:
    place = tmp_path / f"instances.{suffix}"
    problem = "A line\u2028and another\x85."
    rows = [row(clone, problem_statement=problem), row(clone, instance_id="x__y-1", repo="x/y")]
    texts = [json.dumps(one, ensure_ascii=False) for one in rows]
    place.write_text(f"[{','.join(texts)}]" if suffix == "json" else "\n".join(texts) + "\n")
    facts = instances_to_tasks(place, clone.parent, tmp_path / "out" / "tasks.jsonl")
    assert facts["tasks"] == 1
    assert "no clone of x/y" in facts["left_out"]["x__y-1"]
    (task,) = read_tasks(tmp_path / "out" / "tasks.jsonl").records
    assert task.problem == problem
    assert task.gold == {"tool.py": CODE}
    assert task.tests == {"tests/test_tool.py": TESTS}
    assert task.fail_to_pass == FAILING
    assert task.pass_to_pass == PASSING


@pytest.mark.parametrize("lacking", ["patch", "FAIL_TO_PASS", "base_commit"])
def test_an_instance_without_a_field_is_named(tmp_path: Path, clone: Path, lacking: str) -> None:
    place = tmp_path / "instances.json"
    place.write_text(json.dumps([{k: v for k, v in row(clone).items() if k != lacking}]))
    with pytest.raises(EnvDataError, match=f"owner__tool-1 has no {lacking}"):
        read_instances(place)


@pytest.mark.parametrize("text", ["[]", "{", '[{"FAIL_TO_PASS": 1}]', "[1]"])
def test_unusable_files_are_refused(tmp_path: Path, text: str) -> None:
    place = tmp_path / "instances.json"
    place.write_text(text)
    with pytest.raises(EnvDataError, match=r"instances\.json"):
        read_instances(place)


@pytest.mark.parametrize("tests", ["{", "3", '{"a": 1}'])
def test_tests_must_be_a_list(tmp_path: Path, clone: Path, tests: str) -> None:
    place = tmp_path / "instances.json"
    place.write_text(json.dumps([row(clone, FAIL_TO_PASS=tests)]))
    with pytest.raises(EnvDataError, match="FAIL_TO_PASS"):
        read_instances(place)


def test_patches_are_made_and_applied(clone: Path) -> None:
    base = {"a.py": File(b"x\ny\n"), "b.py": File(b"z"), "gone.py": File(b"1\n")}
    tree = Tree(Repository("r", base))
    changed = (
        tree.write("a.py", "x\nw\n").write("b.py", "z\n").write("gone.py", None).write("d/new.py", "n\n")
    )
    patch = make_patch(changed)
    assert apply_patch(base, patch) == changed.changes
    assert make_patch(tree) == ""
    with pytest.raises(EnvError, match="git apply"):
        apply_patch({"a.py": File(b"other\n")}, patch)


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".git/hooks/post-commit"])
def test_patches_do_not_leave_the_repository(path: str) -> None:
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(EnvError):
        apply_patch({}, patch)


def test_predictions_are_what_git_takes(tmp_path: Path, clone: Path) -> None:
    files = read_clone(Clone(str(clone), "HEAD"))
    tree = Tree(Repository("tool", files)).write("tool.py", CODE).write("notes.txt", "done\n")
    (line,) = predictions([("owner__tool-1", tree)], "agent")
    assert set(line) == {"instance_id", "model_name_or_path", "model_patch"}
    git(clone, "apply", "-", data=line["model_patch"].encode())
    assert (clone / "tool.py").read_text() == CODE
    assert (clone / "notes.txt").read_text() == "done\n"


def test_the_harness_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swebench.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvDataError, match="pip install swebench"):
        evaluate(tmp_path / "p.jsonl", "princeton-nlp/SWE-bench_Verified", "run")
    monkeypatch.setattr(swebench.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(swebench.shutil, "which", lambda name: None)
    with pytest.raises(EnvDataError, match="no docker here"):
        evaluate(tmp_path / "p.jsonl", "princeton-nlp/SWE-bench_Verified", "run")


def test_the_harness_is_called_as_it_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def called(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(swebench, "missing_for_harness", lambda: "")
    monkeypatch.setattr(swebench.subprocess, "run", called)
    assert evaluate(tmp_path / "p.jsonl", "SWE-bench/SWE-bench_Verified", "r1", ["--max_workers", "2"]) == 0
    assert calls[0][1:] == [
        "-m", "swebench.harness.run_evaluation", "--dataset_name", "SWE-bench/SWE-bench_Verified", "--run_id", "r1",
        "--predictions_path", str(tmp_path / "p.jsonl"), "--max_workers", "2",
    ]  # fmt: skip
