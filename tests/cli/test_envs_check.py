"""``turnpoint envs check all``: every environment is proved or named with the reason why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.config import Registry
from turnpoint.envs import EnvDataError, EnvSettings, registry
from turnpoint.testing import ToySettings
from turnpoint.testing.toy_env import ToyEnv, ToySuite


class Lacking(ToySettings):
    kind: str = "lacking"
    extra = "toys"
    packages = ("no_such_package",)

    def build(self) -> Any:
        self.require()


class Forgetful(ToyEnv):
    def restore(self, snapshot: Any) -> Any:
        return super().reset(self.task)

    def reset(self, task: Any) -> Any:
        self.task = task
        return super().reset(task)


class OneSplit(ToySettings):
    kind: str = "one_split"

    def build(self) -> ToySuite:
        class Suite(ToySuite):
            def tasks(self, split: str) -> Any:
                if split == "valid":
                    raise EnvDataError("there are no games in valid_seen")
                return super().tasks(split)

        return Suite(self)


class Broken(ToySettings):
    kind: str = "broken"

    def build(self) -> ToySuite:
        return ToySuite(self, Forgetful)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Any:
    def offer(*names: str) -> None:
        known = {"sound": "turnpoint.testing.toy_env:ToySettings", "lacking": f"{__name__}:Lacking",
                 "broken": f"{__name__}:Broken", "one_split": f"{__name__}:OneSplit"}  # fmt: skip
        made: Registry[EnvSettings] = Registry("turnpoint.none", EnvSettings, {n: known[n] for n in names})
        monkeypatch.setattr(registry, "env_registry", made)
        monkeypatch.setattr("turnpoint.envs.env_registry", made)

    return offer


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["envs", "check", "all", "--quick", "--tasks", "2", *arguments])


def test_everything_sound(kinds: Any) -> None:
    kinds("sound")
    done = run()
    assert (done.exit_code, "FAIL" in done.stdout) == (0, False), done.stdout
    assert done.stdout.splitlines()[0] == "sound:"
    assert done.stdout.splitlines()[-1] == "passed: sound"


def test_what_is_missing_is_named_and_is_no_success(kinds: Any) -> None:
    kinds("sound", "lacking")
    done = run()
    assert done.exit_code == 3
    assert "passed: sound" in done.stdout
    assert "not checked: lacking: environment 'lacking' needs no_such_package" in done.stdout
    assert "pip install 'turnpoint[toys]'" in done.stdout


def test_a_broken_one_is_a_failure_whatever_is_missing(kinds: Any) -> None:
    kinds("sound", "broken", "lacking")
    done = run()
    assert done.exit_code == 1
    assert "FAIL fork" in done.stdout
    assert "FAILED: broken: fork: task toy-0" in done.stdout
    found = json.loads(run("--json").stdout)
    assert {report["env"]: report["ok"] for report in found} == {
        "sound": True,
        "broken": False,
        "lacking": None,
    }


def test_a_kind_that_is_left_out_is_not_missing(kinds: Any) -> None:
    kinds("sound", "lacking")
    done = run("--without", "lacking")
    assert done.exit_code == 0, done.output
    assert "lacking" not in done.stdout
    done = run("--without", "lacks")
    assert done.exit_code == 2
    assert "takes one of" in done.stderr


def test_what_has_no_tasks_says_why(kinds: Any) -> None:
    kinds("one_split")
    done = run()
    assert done.exit_code == 1
    assert "FAIL tasks: the environment raised EnvDataError: there are no games in valid_seen" in done.stdout
    assert "FAILED: one_split: tasks: the environment raised EnvDataError" in done.stdout
    done = CliRunner().invoke(app, ["envs", "check", "one_split"])
    assert (done.exit_code, "no games in valid_seen" in done.stdout) == (1, True)
    assert CliRunner().invoke(app, ["envs", "check", "one_split", "--tasks", "0"]).exit_code == 2


def test_settings_name_their_environment(kinds: Any, tmp_path: Path) -> None:
    kinds("sound")
    assert run("sound.rooms=3").exit_code == 0
    done = run("rooms=3")
    assert done.exit_code == 2
    assert "'rooms=3' names none of sound" in done.stderr
    assert "extra" in run("sound.romms=3").stderr or "romms" in run("sound.romms=3").stderr


def test_single_proofs(kinds: Any) -> None:
    kinds("sound")
    assert run("--only", "fork", "--only", "memory").stdout.count("ok ") == 2
    done = run("--only", "folk")
    assert done.exit_code == 2
    assert "there is no proof 'folk'; proofs: tasks, capabilities" in done.stderr


def test_the_list_says_whether_data_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {
        env["name"]: env["prepared"] for env in json.loads(CliRunner().invoke(app, ["envs", "--json"]).stdout)
    }
    assert (found["webshop"], found["sokoban"]) == (False, None)
    (tmp_path / "data" / "webshop").mkdir(parents=True)
    (tmp_path / "data" / "webshop" / "webshop.sqlite").touch()
    listed = CliRunner().invoke(app, ["envs"]).stdout.splitlines()
    assert any(
        line.startswith("webshop") and "(prepared: data/webshop/webshop.sqlite)" in line for line in listed
    )
    assert any(line.startswith("alfworld") and "(not prepared in data/alfworld)" in line for line in listed)
