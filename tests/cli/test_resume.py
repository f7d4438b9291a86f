"""Resuming with other settings than those of the checkpoint: a sentence, never a trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from turnpoint.cli import app
from turnpoint.policy.small.build import build_small_agent
from turnpoint.prompts import Prompter
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.settings import load_run_config

CONFIG = {
    "name": "run",
    "env": {"kind": TOY, "max_turns": 3},
    "prompt": {"compact": True},
    "policy": {"kind": "local", "model": "none"},
    "method": {"kind": "grpo", "group": 2},
    "rollout": {"max_response_tokens": 6},
    "train": {"steps": 1, "tasks_per_step": 1},
    "eval": {"before": False, "every": 0, "tasks": 1},
    "loggers": [],
}


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one GRPO step."""
    folder = tmp_path_factory.mktemp("runs")
    config = load_run_config(CONFIG)
    suite = config.env.build()
    texts = [*suite.vocabulary_texts(), *Prompter(config.prompt, suite.instructions).vocabulary_texts()]
    agent = build_small_agent(
        texts, width=16, heads=2, kv_heads=1, ffn=16, seed=0, context_length=400, folder=folder / "agent"
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        yaml.safe_dump(CONFIG | {"out": str(folder), "policy": {"kind": "local", "model": str(agent)}})
    )
    result = cli("train", recipe)
    assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.fixture
def run(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first, tmp_path / "run"))


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def refused(run: Path, *arguments: object) -> str:
    """What a refused resume says; it must leave the folder as it was."""
    before = files(run)
    result = cli("resume", run, *arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert files(run) == before
    return result.output


def test_more_steps_are_no_structural_change(run: Path) -> None:
    result = cli("resume", run, "train.steps=2")
    assert result.exit_code == 0, result.output
    assert (run / "checkpoints" / "step_000002" / "state.json").is_file()


@pytest.mark.parametrize(
    ("part", "kind", "saved", "more"),
    [
        ("method", "turnopd", "grpo", []),
        ("method", "stride", "grpo", ["scoring.kind=privileged"]),
        ("method", "gspo", "grpo", []),
        ("env", "household", TOY, []),
    ],
)
def test_another_kind_is_refused_with_what_to_do(
    run: Path, part: str, kind: str, saved: str, more: list[str]
) -> None:
    said = refused(run, f"{part}.kind={kind}", *more, "train.steps=2")
    assert f"was saved with {part}.kind={saved}, but {part}.kind is {kind}" in said
    assert f"policy.model={run / 'checkpoints' / 'step_000001' / 'policy'}" in said


def test_a_checkpoint_of_another_kind_is_refused(run: Path) -> None:
    """The config of the folder fits the overrides, but the checkpoint is of another run."""
    path = run / "checkpoints" / "step_000001" / "state.json"
    state = json.loads(path.read_text())
    assert state["kinds"] == {"method": "grpo", "env": TOY, "policy": "local"}
    path.write_text(json.dumps(state | {"kinds": {"method": "pivotopd"}}))
    assert "was saved with method.kind=pivotopd, but method.kind is grpo" in refused(run, "train.steps=2")


def test_state_that_does_not_fit_is_refused(run: Path) -> None:
    """A checkpoint that does not say its kinds, as older ones, and a state of some other method."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["method"], config["teacher"] = {"kind": "turnopd"}, {"kind": "oracle"}
    config["scoring"] = {"kind": "local", "model": config["policy"]["model"]}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    path = run / "checkpoints" / "step_000001" / "state.json"
    state = json.loads(path.read_text())
    del state["kinds"]
    path.write_text(json.dumps(state | {"method": {"stop": {}}}))
    said = refused(run, "train.steps=2")
    assert "method 'turnopd' (stop) does not fit its settings of now (KeyError: 'depth')" in said
    assert "policy.model=" in said


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"step": 1}', '{"step": null, "method": {}}'])
def test_a_broken_checkpoint_is_refused(run: Path, text: str) -> None:
    (run / "checkpoints" / "step_000001" / "state.json").write_text(text)
    assert "is not a complete checkpoint" in refused(run, "train.steps=2")


def test_the_weights_start_a_new_run_of_another_method(run: Path) -> None:
    """What the refusal tells the user to do works."""
    weights = run / "checkpoints" / "step_000001" / "policy"
    result = cli("train", run / "config.yaml", "method.kind=gigpo", f"policy.model={weights}", "name=other")
    assert result.exit_code == 0, result.output
