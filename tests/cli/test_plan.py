from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.planning import PARTS


@pytest.fixture
def plan():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, ["plan", *arguments])


def test_a_plan_in_json_has_parts_memory_and_advice(plan) -> None:
    result = plan("pivotopd_alfworld", "--gpus", "16", "--model", "Qwen3-8B", "--json", "--residuals")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [size["gpus"] for size in data["same_step"]] == [8, 16, 64, 512]
    assert set(data["same_step"][0]["seconds"]) == set(PARTS)
    assert data["same_step"][1]["advice"]
    assert data["assumptions"]["train_mfu"] == 0.3
    assert {check["unit"] for check in data["residuals"]} == {"s", "x"}
    assert data["student"] == "Qwen3-8B"


def test_a_plan_for_people_says_that_nothing_was_measured(plan) -> None:
    result = plan("stride_household", "--gpus", "8", "--residuals", "--set", "workload.turns=6")
    assert result.exit_code == 0, result.output
    for text in (
        "every number is the model's",
        "the recipe's step",
        "512 GPUs",
        "twice the GPUs",
        "published",
    ):
        assert text in result.stdout
    assert "set --model" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("grpo_household", "--gpu", "b300x"),
        ("grpo_household", "--model", "Qwen9"),
        ("grpo_household", "--set", "workload.turn=3"),
        ("grpo_household", "--from", "/no/such/run"),
        ("no_such_recipe",),
    ],
)
def test_wrong_use_is_a_sentence_and_exit_code_2(plan, arguments) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
