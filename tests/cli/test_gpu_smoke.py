from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

# ruff: noqa: E402
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.config import ConfigError
from turnpoint.policy.local import LocalPolicy
from turnpoint.testing.conformance import ASSERTIONS
from turnpoint.testing.smoke import policy_settings
from turnpoint.testing.tiny_model import write_tiny_model


@pytest.fixture
def smoke():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, ["gpu-smoke", *arguments])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_a_sentence(smoke) -> None:
    result = smoke()
    assert result.exit_code == 2
    assert "torch sees none on this machine" in result.stderr
    assert "--device cpu" in result.stderr
    assert result.stdout == ""


def test_a_sound_backend_gives_a_table_and_exit_code_0(smoke) -> None:
    result = smoke("--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "no assertions violated" in result.stdout
    for name in ("float32", "bfloat16"):
        assert name in result.stdout


class Careless(LocalPolicy):
    """Repeats a row, and talks."""

    def update(self, rows):
        print("engine: updating")
        return super().update([*rows, rows[0]])


def test_a_violated_assertion_is_exit_code_1_and_in_the_json(smoke, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("turnpoint.policy.local.LocalPolicy", Careless)
    model = write_tiny_model(tmp_path / "model", context=256, width=32)
    arguments = ("--device", "cpu", "--dtype", "float32", "--model", str(model), "--lr", "0.005", "--json")
    result = smoke(*arguments, "policy.context_length=256")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert "engine: updating" in result.stderr
    assert (report["ok"], report["device"], report["model"]) == (False, "cpu", str(model))
    (run,) = report["runs"]
    assert [a["name"] for a in run["assertions"]] == list(ASSERTIONS)
    assert "loss_is_mean_advantage" in {a["name"] for a in run["assertions"] if a["ok"] is False}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "lokal"], "did you mean 'local'?"),
        (["--dtype", "float16"], "use float32 or bfloat16"),
        (["train.steps=2"], "policy.setting=value only"),
        (["policy.token_budgets=2"], "token_budget"),
        (["--model", "no/such/folder"], "no/such/folder"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(smoke, arguments: list[str], said: str) -> None:
    result = smoke("--device", "cpu", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_settings_reach_the_backend() -> None:
    settings = policy_settings(
        "local", Path("m"), dtype="bfloat16", device="cpu", lr=0.5, overrides=["policy.temperature=0.5"]
    )
    assert (settings.dtype, settings.device, settings.optimizer.lr, settings.temperature) == (
        "bfloat16", "cpu", 0.5, 0.5,
    )  # fmt: skip
    with pytest.raises(ConfigError):
        policy_settings("nothing", Path("m"), dtype="float32", device="cpu", lr=0.1)
