"""Faults are injected, tried in the sandbox, and kept with every listed change that repairs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.repo_repair import prepare as prepare_module
from turnpoint.envs.repo_repair.builder import build, listed_changes, with_line
from turnpoint.envs.repo_repair.example import CODE, TESTS, files
from turnpoint.envs.repo_repair.judge import judge
from turnpoint.envs.repo_repair.prepare import prepare
from turnpoint.envs.repo_repair.records import read_tasks
from turnpoint.envs.repo_repair.runner import Runner
from turnpoint.envs.repo_repair.sandbox import File, Sandbox
from turnpoint.envs.repo_repair.settings import SandboxSettings
from turnpoint.envs.repo_repair.site import own_interpreter
from turnpoint.envs.repo_repair.tree import Repository, Tree

pytestmark = pytest.mark.repo


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner(Sandbox(SandboxSettings()), remember=0)


def test_the_same_seed_builds_the_same_tasks(runner: Runner) -> None:
    one, other = (build("tool", files(), runner, count=1, seed=4) for _ in range(2))
    assert one == other
    assert len(one.records) == 1
    assert build("tool", files(), runner, count=1, seed=5).records != one.records


def test_tasks_are_what_they_say(runner: Runner) -> None:
    for task in build("tool", files(), runner, count=2, seed=0).records:
        assert task.fault is not None
        broken = with_line(CODE, task.fault.line, task.fault.text)
        tree = Tree(Repository("tool", files() | {"tool.py": File(broken.encode())}))
        result = runner.run(tree)
        assert {failure.id for failure in result.failed} == set(task.fail_to_pass)
        assert result.passed == set(task.pass_to_pass)
        for change in listed_changes(broken, "tool.py", task.fixes[0]):
            changed = tree.write("tool.py", with_line(broken, change.line, change.text))
            assert judge(changed, task, runner).solved is (change in task.fixes), change


@pytest.mark.parametrize(
    ("tests", "said"),
    [("def test_no(): assert False\n", "no test of it passes"), ("", "no test of it passes")],
)
def test_a_package_without_passing_tests_is_refused(runner: Runner, tests: str, said: str) -> None:
    with pytest.raises(EnvDataError, match=said):
        build("tool", files() | {"tests/test_tool.py": File(tests.encode())}, runner, count=1, seed=0)


def test_endless_faults_are_left_behind(runner: Runner) -> None:
    tree = Tree(Repository("tool", files()))
    endless = {"tool.py": CODE.replace("return b", "while True: pass")}
    first, stuck, last = runner.each(tree, [{}, endless, {}], cpu_each=0.3)
    assert len(first.passed) == len(last.passed) == 3
    assert stuck.fault
    assert not stuck.passed


def test_prepare_reads_folders_bundles_and_yaml(tmp_path: Path) -> None:
    source = tmp_path / "packages"
    (source / "tool" / "tests").mkdir(parents=True)
    (source / "tool" / "tool.py").write_text(CODE)
    (source / "tool" / "tests" / "test_tool.py").write_text(TESTS)
    (source / "tool" / "to").symlink_to("/etc/passwd")
    (source / "other.txt").write_text(f"=== tool.py\n{CODE}=== test_tool.py\n{TESTS}")
    order = tmp_path / "order.yaml"
    order.write_text(json.dumps({"sources": [str(source)], "faults": 1, "seed": 2}))
    facts = prepare(order, tmp_path / "out")
    assert facts["tasks"] == 2
    found = read_tasks(tmp_path / "out" / "tasks.jsonl")
    assert found.sha256 == facts["sha256"]
    assert {task.repository for task in found.records} == {"tool", "other"}
    assert set(found.repositories["tool"]) == {"tool.py", "tests/test_tool.py"}
    order.write_text(json.dumps({"sources": [str(source)], "fault": 1}))
    with pytest.raises(EnvDataError, match="faults"):
        prepare(order, tmp_path / "out")


def test_installed_packages_are_taken_and_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed here must not be importable in the sandbox: there lies its solution."""
    site = tmp_path / "site"
    (site / "tool-1.0.dist-info").mkdir(parents=True)
    (site / "tool-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
    (site / "tool-1.0.dist-info" / "RECORD").write_text("tool.py,,\ntests/test_tool.py,,\n")
    (site / "tests").mkdir()
    (site / "tool.py").write_text(CODE)
    (site / "tests" / "test_tool.py").write_text(TESTS)
    monkeypatch.syspath_prepend(str(site))
    assert dict(prepare_module._packages("tool"))["tool"] == files()
    with pytest.raises(EnvDataError, match="installed without its tests"):
        dict(prepare_module._packages("pydantic"))
    with pytest.raises(EnvDataError, match="no installed distribution"):
        dict(prepare_module._packages("no-such-thing"))
    sandbox = Sandbox(SandboxSettings())
    ran = sandbox.run({}, command=[sandbox.interpreter.program, "-c", "import pytest, pydantic"])
    assert "No module named 'pydantic'" in ran.output


def test_what_tests_need_can_be_shown(tmp_path: Path) -> None:
    sandbox = Sandbox(SandboxSettings(), ["jinja2"])
    ran = sandbox.run(
        {}, command=[sandbox.interpreter.program, "-c", "import jinja2, markupsafe; print('there')"]
    )
    assert ran.output == "there\n"
    with pytest.raises(EnvDataError, match="pip install no-such-thing"):
        Sandbox(SandboxSettings(), ["no-such-thing"])


def test_another_interpreter_is_used_or_refused(tmp_path: Path) -> None:
    below_tmp = tmp_path / "venv"  # where the sandbox has a folder of its own
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(below_tmp)], check=True)
    site = next(below_tmp.glob("lib/python3*/site-packages"))
    for source, _ in own_interpreter(()).shown:
        if "site-packages" in source:
            copy = shutil.copytree if Path(source).is_dir() else shutil.copy
            copy(source, site / Path(source).name)
    for python in (Path(sys.executable), below_tmp / "bin" / "python"):
        sandbox = Sandbox(SandboxSettings(python=python))
        ran = sandbox.run({}, command=[sandbox.interpreter.program, "-c", "import sys; print(sys.prefix)"])
        assert ran.output.strip() == str(python.parents[1])
    result = Runner(Sandbox(SandboxSettings(python=Path(sys.executable))), remember=0).run(
        Tree(Repository("tool", files()))
    )
    assert len(result.passed) == 3
    with pytest.raises(EnvDataError, match="cannot run pytest"):
        Sandbox(SandboxSettings(python=Path("/bin/false")))
