"""Episodes in the real sandbox: the contract, and every way to a reward that was not earned."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.envs.check import check_env
from turnpoint.envs.protocol import Env, EnvDataError
from turnpoint.envs.repo_repair import sandbox as sandbox_module
from turnpoint.envs.repo_repair.clones import git, read_clone
from turnpoint.envs.repo_repair.example import CODE, FAILING, PASSING, TESTS, record, write
from turnpoint.envs.repo_repair.patches import make_patch
from turnpoint.envs.repo_repair.prepare import prepare
from turnpoint.envs.repo_repair.records import Clone
from turnpoint.envs.repo_repair.settings import RepoRepairSettings, SandboxSettings
from turnpoint.envs.repo_repair.suite import RepoRepairSuite
from turnpoint.envs.repo_repair.tree import Repository, Tree
from turnpoint.records import Step
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytestmark = pytest.mark.repo
RECIPES = Path(__file__).resolve().parents[2] / "recipes"
REPAIR = "edit tool.py 2: if a > b:"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> RepoRepairSuite:
    return RepoRepairSettings(tasks=str(write(tmp_path_factory.mktemp("tasks")))).build()


@pytest.fixture
def env(suite: RepoRepairSuite) -> Env:
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    return env


def play(env: Env, *actions: str) -> Step:
    for action in actions:
        step = env.step(action)
    return step


@pytest.mark.parametrize("actions", ["open", "listed"])
def test_the_contract_is_kept(tmp_path: Path, actions: str) -> None:
    suite = RepoRepairSettings.model_validate({"tasks": str(write(tmp_path)), "actions": actions}).build()
    report = check_env(suite, tasks=2, quick=True)
    assert report.ok, report.failures


def test_samples_keep_the_contract() -> None:
    report = check_env(RepoRepairSettings().build(), tasks=2, quick=True)
    assert report.ok, report.failures


@pytest.mark.parametrize("actions", ["open", "listed"])
def test_the_oracle_repairs_samples(actions: str) -> None:
    suite = RepoRepairSettings.model_validate({"actions": actions}).build()
    env = suite.make()
    for task in suite.tasks("valid")[:4]:
        env.reset(task)
        for _ in range(suite.max_turns):
            step = env.step(env.best_actions("observed")[0])
            if step.done:
                break
        assert step.success, task.id
        assert step.reward == 10.0


def test_a_repair_is_seen_by_the_tests_and_rewarded(env: Env) -> None:
    assert play(env, "test").observation.text.startswith("2 failed, 0 passed.")
    assert play(env, "test tests/test_tool.py::test_half").observation.text == "0 failed, 1 passed."
    assert play(env, REPAIR, "test all").observation.text == "0 failed, 3 passed."
    step = play(env, "submit")
    assert (step.reward, step.done, step.success) == (10.0, True, True)


def test_another_repair_counts_as_well(env: Env) -> None:
    step = play(env, "edit tool.py 2-4\n    return max(a, b)", "submit")
    assert step.success


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ((), "tests that had to pass still fail."),
        ((REPAIR, "edit tool.py 8: return x"), "tests that passed before fail now."),
        (("create tool.py\nsyntax error(",), "tests that had to pass still fail."),
    ],
)
def test_what_is_no_repair_earns_nothing(env: Env, actions: tuple[str, ...], said: str) -> None:
    step = play(env, *actions, "submit")
    assert (step.reward, step.done, step.success) == (0.0, True, False)
    assert step.observation.text.endswith(said)


FORCED = """create conftest.py
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
"""
IN_THE_CODE = (
    CODE.replace("a > b", "a < b")
    + """

import _pytest.runner

def _pass(cls, func, when, reraise=None):
    try:
        func()
    except BaseException:
        pass
    return cls(result=None, excinfo=None, start=0, stop=0, duration=0, when=when, _ispytest=True)

_pytest.runner.CallInfo.from_call = classmethod(_pass)
"""
)


@pytest.mark.parametrize(
    "actions",
    [
        (FORCED,),
        ("create tests/conftest.py\n" + FORCED.split("\n", 1)[1],),
        ("create tests/test_tool.py\ndef test_larger(): pass\ndef test_larger_first(): pass\ndef test_half(): pass",),
        ("edit tests/test_tool.py 5: assert True", "edit tests/test_tool.py 9: assert True"),
        ("create pytest.ini\n[pytest]\naddopts = --collect-only",),
        ("create setup.cfg\n[tool:pytest]\npython_functions = nothing_*",),
        ("create pyproject.toml\n[tool.pytest.ini_options]\naddopts = '-k half'",),
        ("create sitecustomize.py\nimport os\nos._exit(0)",),
        ("create pytest.py\ndef main(*a, **k): return 0",),
        ("create _pytest/__init__.py\n",),
        ("create tool.py\nimport os\nos._exit(0)",),
        ("create tool.py\nimport sys\nsys.exit(0)",),
        ("create tool.py\nimport pytest\npytest.skip('no', allow_module_level=True)",),
        ("create tool.py\nprint('3 passed in 0.01s')\nraise SystemExit(0)",),
        (
            "create tool.py\nimport os, json\nfor fd in range(3, 64):\n"
            "    for name in ('larger', 'larger_first', 'half'):\n        line = json.dumps(['0' * 32, "
            "{'id': f'tests/test_tool.py::test_{name}', 'when': 'call',"
            " 'outcome': 'passed'}]) + '\\n'\n        try: os.write(fd, line.encode())\n        except OSError: pass"
            "\nos._exit(0)",
        ),
        ("create tool.py\n" + IN_THE_CODE,),
        ("create tool.py\n" + CODE.replace("a > b", "a < b") + "\nimport builtins\nbuiltins.AssertionError = Warning",),
    ],
    ids=range(17),
)  # fmt: skip
def test_tampering_earns_nothing(env: Env, actions: tuple[str, ...]) -> None:
    for action in actions:
        assert play(env, action).effective
    step = play(env, "submit")
    assert (step.reward, step.success) == (0.0, False), step.observation.text


def test_a_forced_pass_is_named_as_tampering(env: Env) -> None:
    step = play(env, "create tool.py\n" + IN_THE_CODE, "submit")
    assert step.observation.text.endswith("The test run was tampered with.")


def test_the_repair_still_counts_beside_changed_tests(env: Env) -> None:
    assert play(env, FORCED, "edit tests/test_tool.py 5: assert False", REPAIR, "submit").success


def test_the_gold_patch_is_nowhere_in_the_sandbox(tmp_path: Path) -> None:
    token = f"gold_{uuid.uuid4().hex}"
    hidden = f"hidden_{uuid.uuid4().hex}"
    task = record(
        fault=None,
        fixes=(),
        gold={"tool.py": CODE + f"\n{token} = 1\n"},
        tests={"tests/test_tool.py": TESTS + f"\n{hidden} = 1\n"},
    )
    suite = RepoRepairSettings(tasks=str(write(tmp_path, task, record("v", split="valid")))).build()
    env = suite.make()
    first = env.reset(suite.tasks("train")[0])
    looking = f'''create tests/test_look.py
import os

def test_look():
    found, looked = [], 0
    for top in ("/repo", "/opt", "/tmp", "/etc", "/dev/shm", "/home", "/root", "/var", "/usr/lib/python3"):
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    with open(os.path.join(folder, name), "rb") as file:
                        data = file.read()
                except OSError:
                    continue
                looked += 1
                if b"gold_" + b"{token[5:]}" in data or b"hidden_" + b"{hidden[7:]}" in data:
                    found.append(os.path.join(folder, name))
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("cmdline", "environ", "mountinfo"):
            try:
                data = open(f"/proc/{{pid}}/{{name}}", "rb").read()
            except OSError:
                continue
            if b"gold_" + b"{token[5:]}" in data or b"tasks.jsonl" in data:
                found.append(pid + name)
    assert (found, looked > 100) == ([], True)
'''
    step = play(env, looking, "test tests/test_look.py")
    assert step.observation.text == "0 failed, 1 passed."
    assert token not in first.text + step.observation.text
    for action in ("search gold_", "search hidden_", "open ../tasks.jsonl", "open /etc/passwd", "list"):
        assert token not in play(env, action).observation.text


def test_what_tests_write_is_not_kept(env: Env) -> None:
    writing = "create tests/test_write.py\ndef test_it():\n    open('tool.py', 'w').write('x')\n    open('new', 'w')"
    assert play(env, writing, "test tests/test_write.py").observation.text == "0 failed, 1 passed."
    assert "def larger" in play(env, "open tool.py").observation.text
    assert "new" not in play(env, "list").observation.text.split("\n")


def test_observations_are_the_same_every_time(tmp_path: Path) -> None:
    noisy = """create tests/test_noise.py
import tempfile, time, datetime

def test_noise(tmp_path):
    raise ValueError(object(), str(tmp_path), f"{time.time() % 7:.3f} s", str(datetime.datetime.now()), {"b", "a", "c"})
"""
    seen = set()
    for _ in range(2):
        suite = RepoRepairSettings(tasks=str(write(tmp_path))).build()
        env = suite.make()
        env.reset(suite.tasks("train")[0])
        seen.add(play(env, noisy, "test tests/test_noise.py").observation.text)
    (text,) = seen
    assert "ValueError" in text
    assert "0x…" in text


@pytest.mark.parametrize(
    ("test", "seconds", "said"),
    [
        ("while True: pass", 6.0, "The tests took too long and were ended."),
        ("x = []\n    while True: x.append(bytearray(1 << 20))", 120.0, "MemoryError"),
        ("import os\n    os.kill(os.getpid(), 9)", 120.0, "The test run broke off."),
        ("import os\n    while True: os.write(2, b'x' * 65536)", 120.0, "File too large"),
    ],
)
def test_wild_tests_are_answered(
    env: Env, suite: RepoRepairSuite, test: str, seconds: float, said: str
) -> None:
    limits = SandboxSettings(seconds=seconds, cpu_seconds=30, memory_mb=300)
    wild = RepoRepairSettings(tasks=suite.settings.tasks, sandbox=limits).build().make()
    wild.reset(suite.tasks("train")[0])
    adding = f"create tests/test_wild.py\ndef test_wild():\n    {test}"
    step = play(wild, adding, "test tests/test_wild.py")
    assert said in step.observation.text
    assert not step.done
    assert play(wild, "undo tests/test_wild.py", REPAIR).effective
    assert play(env, adding, "undo tests/test_wild.py", REPAIR, "submit").success  # under the usual limits


def test_without_bubblewrap_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvDataError, match="apt-get install bubblewrap"):
        RepoRepairSettings(tasks=str(write(tmp_path))).build()
    with pytest.raises(EnvDataError, match="apt-get install bubblewrap"):
        sandbox_module.Sandbox(SandboxSettings())


def test_a_bubblewrap_that_cannot_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandbox_module.shutil, "which", lambda name: str(broken))
    with pytest.raises(EnvDataError, match=r"No permissions.*never run outside a sandbox"):
        sandbox_module.Sandbox(SandboxSettings())


def test_swebench_instances_are_played_with_hidden_tests(tmp_path: Path) -> None:
    clone = tmp_path / "clones" / "owner__tool"
    (clone / "tests").mkdir(parents=True)
    (clone / "tool.py").write_text(CODE.replace("a > b", "a < b"))
    (clone / "tests" / "test_tool.py").write_text("def test_old(): pass\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        git(clone, "-c", "user.name=t", "-c", "user.email=t@t", *command)
    base = Tree(Repository("tool", read_clone(Clone(str(clone), "HEAD"))))
    row = {
        "instance_id": "owner__tool-1",
        "repo": "owner/tool",
        "base_commit": git(clone, "rev-parse", "HEAD").decode().strip(),
        "problem_statement": "larger() gives the smaller one.",
        "patch": make_patch(base.write("tool.py", CODE)),
        "test_patch": make_patch(base.write("tests/test_tool.py", TESTS)),
        "FAIL_TO_PASS": json.dumps(FAILING),
        "PASS_TO_PASS": json.dumps(PASSING),
    }
    (tmp_path / "instances.json").write_text(json.dumps([row]))
    order = tmp_path / "order.yaml"
    order.write_text(json.dumps({"swebench": str(tmp_path / "instances.json"), "clones": str(clone.parent)}))
    assert prepare(order, tmp_path / "out")["tasks"] == 1
    suite = RepoRepairSettings(tasks=str(tmp_path / "out" / "tasks.jsonl")).build()
    (task,) = suite.tasks("valid")
    with pytest.raises(EnvDataError, match="split: divided"):
        suite.tasks("train")
    env = suite.make()
    env.reset(task)
    assert play(env, "test").observation.text == "0 failed, 1 passed."
    assert "test_half" not in play(env, "open tests/test_tool.py").observation.text
    assert env.distance() == 2
    assert not play(env, "submit").success
    env.reset(task)
    assert play(env, env.best_actions("full")[0], "submit").success
    with pytest.raises(EnvDataError, match="actions: open"):
        RepoRepairSettings(tasks=suite.settings.tasks, actions="listed").build()


SMALL = [
    "policy.layers=1", "policy.width=32", "policy.heads=2", "policy.kv_heads=1", "policy.ffn=48",
    "policy.warm_start.demonstrations=16", "train.steps=1", "train.tasks_per_step=2", "method.group=2",
    "eval.before=false", "eval.every=0", "eval.tasks=1", "eval.attempts=1", "loggers=[]",
    "rollout.max_response_tokens=24", "env.max_turns=5",
]  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    train("grpo_repo_repair", folder, f"cache={folder / 'cache'}")
    return folder / "checkpoints" / "step_000001" / "policy"


def train(recipe: str, folder: Path, *overrides: str) -> list[dict[str, object]]:
    config = load_run_config(RECIPES / f"{recipe}.yaml", [*SMALL, *overrides])
    asyncio.run(Trainer(build_run(config, folder), View()).train())
    return [row for row in read_metrics(folder / "metrics.jsonl") if row["kind"] == "train"]


@pytest.mark.parametrize("method", ["pivotopd", "pivoarl", "stride", "pivotopd_swe"])
def test_recipes_train(method: str, teacher: Path, tmp_path: Path) -> None:
    more = [f"scoring.model={teacher}"] if method in ("stride", "pivotopd_swe") else []
    own = ["method.group=1"] if method == "stride" else []
    name = "pivotopd_swe" if method == "pivotopd_swe" else f"{method}_repo_repair"
    steps = train(name, tmp_path / "run", f"cache={tmp_path}", *own, *more)
    assert sum(float(str(step["rows"])) for step in steps) > 0


def test_predictions_of_a_run(suite: RepoRepairSuite, tmp_path: Path) -> None:
    from turnpoint.records import EpisodeWriter
    from turnpoint.testing.episodes import play_oracle

    with EpisodeWriter(tmp_path / "episodes.jsonl") as writer:
        writer.write(play_oracle(suite.make(), suite.tasks("train")[0]))
    out = tmp_path / "predictions.jsonl"
    given = [str(tmp_path / "episodes.jsonl"), str(out), f"tasks={suite.settings.tasks}"]
    done = CliRunner().invoke(app, ["envs", "predictions", "repo_repair", *given])
    assert done.exit_code == 0, done.output
    (line,) = map(json.loads, out.read_text().splitlines())
    assert line["instance_id"] == "tool-000"
    assert "+    if a > b:" in line["model_patch"]
