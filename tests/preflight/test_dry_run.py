"""A dry run: memory from files before anything is loaded, the cost of a step, no warm start, no run folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.cli.recipes import find_recipe
from turnpoint.preflight import Fault, NotApplicable, memory
from turnpoint.preflight.dry_run import dry_run, without_warm_start
from turnpoint.training.settings import load_run_config

pytest.importorskip("torch")
GRPO: dict[str, Any] = {"method": {"kind": "grpo", "group": 2}, "scoring": {}}


def test_memory_and_cost_are_told_in_order(config_of: Callable[..., dict[str, Any]], student: Path) -> None:
    seen: list[str] = []
    config = load_run_config(config_of(**GRPO))
    report = asyncio.run(
        dry_run(config, progress=lambda finding: seen.append(f"{finding.group}/{finding.name}"))
    )
    assert report.ok
    assert seen == [f"{finding.group}/{finding.name}" for finding in report.findings]
    assert seen[0] == "memory/from the model's files", "before anything is built"
    assert {"tokens/tiny step", "update/dry run", "cost/memory", "cost/step"} < set(seen)
    assert report.memory["weights"] == 4 * memory.parameters(student)
    assert report.memory["optimizer"] == 8 * memory.parameters(student)
    assert report.cost["episodes"] == {"tiny": 4.0, "step": 16.0, "run": 160.0}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {"gradients": 4, "optimizer": 8}),
        ({"optimizer": {"kind": "adamw8bit"}}, {"gradients": 4, "optimizer": 2}),
        ({"dtype": "bfloat16"}, {"weights": 2, "gradients": 4, "optimizer": 12}),
        ({"loss": {"kl": 0.1}}, {"reference": 4}),
    ],
)
def test_what_training_holds_per_weight(
    config_of: Callable[..., dict[str, Any]], student: Path, policy: dict[str, Any], expected: dict[str, int]
) -> None:
    data = config_of(**GRPO)
    found, told = memory.before_building(load_run_config(data | {"policy": data["policy"] | policy}))
    count = memory.parameters(student)
    assert {name: found[name] / count for name in expected} == expected
    assert "optimizer" in told


def test_adapters_alone_have_gradients_and_moments(
    config_of: Callable[..., dict[str, Any]], student: Path
) -> None:
    data = config_of(**GRPO)
    policy = data["policy"] | {"lora": {"rank": 2}, "loss": {"kl": 0.1}}
    config = load_run_config(data | {"policy": policy})
    found, _ = memory.before_building(config)
    # one layer: q 16x16, k and v 16x8, o 16x16, gate and up 16x32, down 32x16
    adapters = 2 * (32 + 2 * 24 + 32 + 3 * 48)
    assert found["adapters"] == 4 * adapters
    assert found["optimizer"] == 8 * adapters
    assert found["reference"] == 0, "it is the model with its adapters off"
    (lora,) = [config.policy.lora]  # type: ignore[attr-defined]
    some = lora.model_copy(update={"targets": ["q_proj", "v_proj"]})
    assert memory.adapter_parameters(student, some) == 2 * (32 + 24)


def test_what_cannot_fit_is_refused_before_it_is_loaded(
    config_of: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda on_gpu: 1000.0)
    config = load_run_config(config_of(**GRPO))
    with pytest.raises(Fault, match=r"weights and optimizer alone do not fit; use policy\.lora"):
        memory.before_building(config)
    report = asyncio.run(dry_run(config))
    assert not report.ok
    assert len(report.findings) == 1, "nothing was built"


def test_a_warm_start_is_left_out_until_it_was_made(tmp_path: Path) -> None:
    data: dict[str, Any] = {
        "env": {"kind": "turnpoint.testing.toy_env:ToySettings", "rooms": 3, "max_turns": 4, "train_tasks": 4},
        "prompt": {"compact": True, "show_admissible": False},
        "policy": {"kind": "small", "layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "ffn": 24,
                   "context_length": 256, "warm_start": {"demonstrations": 8}},
        "method": {"kind": "grpo", "group": 2},
        "rollout": {"max_response_tokens": 8},
        "train": {"steps": 3, "tasks_per_step": 2},
        "eval": {"tasks": 1}, "loggers": [], "cache": str(tmp_path / "cache"), "out": str(tmp_path / "runs"),
    }  # fmt: skip
    config = load_run_config(data)
    with pytest.raises(NotApplicable):
        memory.before_building(config)
    first = {f"{f.group}/{f.name}": f for f in asyncio.run(dry_run(config, tasks=1)).findings}
    assert "8 demonstrations, not trained on yet" in first["policy/warm start"].detail
    assert first["cost/step"].verdict == "ok"
    assert not (tmp_path / "runs").exists()
    from turnpoint.prompts import Prompter

    suite = config.env.build()
    config.policy.prepare(suite, Prompter(config.prompt, ""), cache=config.cache, seed=config.seed)
    second = [f"{f.group}/{f.name}" for f in asyncio.run(dry_run(config, tasks=1)).findings]
    assert "policy/warm start" not in second


def test_the_command_prints_the_table_and_starts_nothing(
    config_of: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(config_of(**GRPO) | {"out": str(tmp_path / "runs")}))
    result = CliRunner().invoke(app, ["train", str(recipe), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "ok   memory: from the model's files: about" in result.output
    assert "sampled tokens" in result.output
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(memory, "available", lambda on_gpu: 1000.0)
    assert CliRunner().invoke(app, ["train", str(recipe), "--dry-run"]).exit_code == 1


@pytest.mark.parametrize("backend", ["local", "verl"])
def test_demonstrations_are_left_out_wherever_the_model_is_trained(backend: str, tmp_path: Path) -> None:
    adam = "policy.optimizer={kind: adamw, lr: 1e-3}"
    config = load_run_config(
        find_recipe("pivotopd_household"), [f"backend={backend}", adam, f"cache={tmp_path}"]
    )
    skipped, finding = without_warm_start(config)
    maker = skipped.policy.start if backend == "verl" else skipped.policy
    assert maker.warm_start.demonstrations == 0
    assert finding is not None
    assert finding.verdict == "skip"
    assert not list(tmp_path.iterdir())
