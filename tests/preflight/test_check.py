"""A sound set-up passes; the command says so, or what must be mended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.preflight.check import CHECKS, check_config
from turnpoint.preflight.memory import parameters
from turnpoint.training.settings import load_run_config


def test_a_sound_set_up_passes(config_of: Callable[..., dict[str, Any]], student: Path) -> None:
    weights = (student / "model.safetensors").read_bytes()
    report = asyncio.run(check_config(load_run_config(config_of())))
    assert report.ok, report.failures
    found = {(f.group, f.name): f for f in report.findings}
    assert list(found) == list(CHECKS)
    assert {key for key, f in found.items() if f.verdict == "skip"} == {("signals", "naming teacher")}
    assert {key for key, f in found.items() if f.verdict == "warn"} <= {("signals", "reward")}
    assert "no weight moved" in found["update", "dry run"].detail
    assert (student / "model.safetensors").read_bytes() == weights

    cost = report.cost
    assert cost["sampled tokens"]["step"] == 4 * cost["sampled tokens"]["tiny"] > 0
    assert cost["sampled tokens"]["run"] == 10 * cost["sampled tokens"]["step"]
    assert cost["trained tokens"] == cost["sampled tokens"]
    assert cost["scoring requests"]["tiny"] == cost["episodes"]["tiny"] == 4
    assert cost["prompt tokens read anew"]["tiny"] < cost["prompt tokens"]["tiny"]
    assert report.memory["weights"] == 4 * parameters(student)
    assert json.loads(json.dumps(report.to_dict()))["ok"]


def test_a_naming_teacher_is_missed_when_it_falls_silent(config_of: Callable[..., dict[str, Any]]) -> None:
    config = load_run_config(
        config_of(scoring={}, teacher={"kind": "oracle"}, method={"kind": "pivotopd", "group": 2})
    )
    report = asyncio.run(check_config(config))
    assert report.ok, report.failures
    found = {(f.group, f.name): f for f in report.findings}
    assert "trained differently" in found["signals", "naming teacher"].detail


def test_parameters_are_counted_from_headers(student: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(student)
    assert parameters(student) == sum(weight.numel() for weight in model.parameters())


def invoke(tmp_path: Path, config: dict[str, Any], *arguments: str) -> Any:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return CliRunner().invoke(app, ["check", str(path), *arguments])


def test_the_command_passes_and_shows_the_cost(
    tmp_path: Path, config_of: Callable[..., dict[str, Any]]
) -> None:
    result = invoke(tmp_path, config_of(), "--tasks", "1")
    assert result.exit_code == 0, result.output
    assert "ok   log-probs: sampler and trainer" in result.output
    assert "nothing must be mended" in result.output
    assert "seconds updating" in result.output


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout.top_p=0.9", "rollout.top_p=0.9"),
        ("policy.model=/nowhere", "models are not downloaded"),
        ("scoring=null", "set scoring.kind to local, http or privileged"),
    ],
)
def test_the_command_says_no(
    tmp_path: Path, config_of: Callable[..., dict[str, Any]], override: str, message: str
) -> None:
    result = invoke(tmp_path, config_of(), override, "--json", "--tasks", "1")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert not report["ok"]
    assert any(message in check["detail"] for check in report["checks"] if check["verdict"] == "fail")


def test_a_config_that_is_not_there_is_wrong_use() -> None:
    assert CliRunner().invoke(app, ["check", "no_such_recipe"]).exit_code == 2
