from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.cli.recipes import list_recipes
from turnpoint.config import load_yaml
from turnpoint.records import EpisodeWriter, StopReason
from turnpoint.testing import play_actions, toy_suite
from turnpoint.training.settings import load_run_config

TOY = "turnpoint.testing.toy_env:ToySettings"


@pytest.fixture
def cli():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, list(arguments))


def test_every_command_has_help_with_an_example(cli) -> None:
    for command in app.registered_commands:
        result = cli(command.name, "--help")
        assert result.exit_code == 0
        assert "Example:" in result.output, command.name


def test_methods_json_names_paper_terms_and_options(cli) -> None:
    found = {method["name"]: method for method in json.loads(cli("methods", "--json").output)}
    assert {"grpo", "pivotopd"} <= found.keys()
    assert found["pivotopd"]["paper"] == "arXiv 2609.40285"
    assert len(found["pivotopd"]["terms"]) == 4
    for name, method in found.items():
        assert method["paper"], name
        assert method["terms"], name
        for option, described in method["options"].items():
            assert described["about"], f"{name}.{option} has no description"


def test_envs_json_names_capabilities(cli) -> None:
    found = {env["name"]: env for env in json.loads(cli("envs", "--json").output)}
    facts = {"name", "snapshots", "replay", "oracle", "admissible", "extra", "data", "prepared"}
    assert set(found["household"]) == facts


def test_envs_check_answers_in_json(cli) -> None:
    result = cli("envs", "check", TOY, "--json", "--quick", "--tasks", "2")
    report = json.loads(result.output)
    assert report["ok"] is True
    assert result.exit_code == 0
    assert {"name", "ok"} <= report["checks"][0].keys()


def test_envs_check_says_no_with_exit_code_1(cli) -> None:
    result = cli("envs", "check", TOY, "fault=crash", "--quick", "--tasks", "2")
    assert result.exit_code == 1
    assert "FAIL" in result.output


def test_envs_check_tells_skipped_proofs_from_kept_ones(cli) -> None:
    lines = cli("envs", "check", TOY, "oracle=false", "--quick", "--tasks", "1").output.splitlines()
    verdicts = {line[5:].split(":")[0]: line[:4] for line in lines}
    assert verdicts["oracle path"] == "skip"
    assert verdicts["tasks"] == "ok  "


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda path: path.stem)
def test_recipes_are_valid_and_described(recipe: Path) -> None:
    assert recipe.read_text().startswith("# ")
    config = load_run_config(recipe)
    assert config.name == load_yaml(recipe)["name"] == recipe.stem


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no-such-recipe"], "there is no config file"),
        (["plan", "my/quickstart.yaml"], "there is no config file my/quickstart.yaml"),
        (["plan", "quickstrat"], "did you mean 'quickstart'?"),
        (["plan", "/tmp"], "/tmp is a folder"),
        (["plan", "quickstart.json"], "there is no config file quickstart.json"),
        (["train", "grpo_household", "method.gruop=2"], "did you mean 'group'"),
        (["train", "grpo_household", "env.games=/nowhere"], "/nowhere"),
        (["train", "grpo_household", "policy.kind=local", "policy.model=/nowhere"], "/nowhere"),
        (["train", "stride_household", "scoring.model=/nowhere"], "turnpoint train teacher_household"),
        (["resume", "/nowhere"], "is not a run folder"),
        (["envs", "check", "householt"], "did you mean 'household'"),
        (["sft", "/nowhere", "/nowhere.jsonl", "--out", "/tmp/never-made"], "/nowhere"),
    ],
)
def test_user_faults_are_one_message_and_exit_code_2(cli, arguments, message) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "message"),
    [("unmeasured.jsonl", "no oracle distances"), ("missing.jsonl", "missing.jsonl: No such")],
)
def test_mistakes_that_cannot_be_replayed_are_one_message(cli, tmp_path: Path, name, message) -> None:
    (tmp_path / "config.yaml").write_text(f"env: {TOY}\npolicy: {{kind: local, model: none}}\nmethod: grpo\n")
    suite = toy_suite(max_turns=2)
    env, task = suite.make(), suite.tasks("train")[0]
    with EpisodeWriter(tmp_path / "unmeasured.jsonl") as writer:
        episode = play_actions(env, task, ["wait", "wait"])
        episode.stop, episode.success = StopReason.MAX_TURNS, False
        writer.write(episode)
    result = cli("recover", str(tmp_path), str(tmp_path / name))
    assert result.exit_code == 2, result.output
    assert message in result.output
