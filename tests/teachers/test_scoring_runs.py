"""Whole runs with a scoring teacher: from the config to checkpoints and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.records import StopReason, read_episodes  # noqa: E402
from turnpoint.testing.toy_env import KIND as TOY  # noqa: E402
from turnpoint.training.loop import Trainer  # noqa: E402
from turnpoint.training.metrics import read_metrics  # noqa: E402
from turnpoint.training.run import build_run  # noqa: E402
from turnpoint.training.settings import load_run_config  # noqa: E402
from turnpoint.training.view import View  # noqa: E402

from .tiny import write_model  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_model(tmp_path_factory.mktemp("student"), 0), write_model(
        tmp_path_factory.mktemp("teacher"), 1
    )


def config(models: tuple[Path, Path], **changes: Any) -> dict[str, Any]:
    student, teacher = models
    return {
        "env": {"kind": TOY, "max_turns": 8, "train_tasks": 6},
        "prompt": {"compact": True, "action_tags": False},
        "policy": {"kind": "local", "model": str(student), "device": "cpu", "optimizer": {"lr": 1e-3}},
        "scoring": {"kind": "local", "model": str(teacher), "device": "cpu"},
        "method": {"kind": "stride", "stop": {"lambda": -12.0}, "restart": {"alpha": None}},
        "rollout": {"max_response_tokens": 4},
        "train": {"steps": 4, "tasks_per_step": 3, "checkpoint_every": 2},
        "eval": {"every": 0, "before": False, "tasks": 2},
        "loggers": [],
    } | changes


def train(
    data: dict[str, Any], folder: Path, overrides: list[str] | None = None, *, resume: bool = False
) -> None:
    trainer = Trainer(build_run(load_run_config(data, overrides), folder), View())
    if resume:
        trainer.resume()
    asyncio.run(trainer.train())


def steps(folder: Path) -> list[dict[str, Any]]:
    records = [r for r in read_metrics(folder / "metrics.jsonl") if r["kind"] == "train"]
    return [{k: v for k, v in r.items() if "seconds" not in k} for r in records]


def test_stride_run_and_its_resume(models, tmp_path) -> None:
    data = config(models)
    train(data, tmp_path / "whole")
    train(data, tmp_path / "parts", ["train.steps=2"])
    train(data, tmp_path / "parts", resume=True)
    whole, parts = steps(tmp_path / "whole"), steps(tmp_path / "parts")
    assert whole[0]["stopped"] > 0
    assert any(r["window/reused"] > 0 for r in whole)  # steps 3 and 4 see the tasks of 1 and 2 again
    assert [r["step"] for r in parts] == [1, 2, 3, 4]
    assert parts == whole
    ours, theirs = (
        [read_episodes(path) for path in sorted((tmp_path / name / "episodes").iterdir())]
        for name in ("whole", "parts")
    )
    for a, b in zip(ours, theirs, strict=True):
        assert [[t.response_ids for t in e.turns] for e in a] == [
            [t.response_ids for t in e.turns] for e in b
        ]
        assert [e.stop for e in a] == [e.stop for e in b]
    (first, *_) = ours[0]
    assert len(first.turns[0].scores["teacher"]) == len(first.turns[0].response_ids)
    assert StopReason.OUT_OF_SUPPORT in {e.stop for episodes in ours for e in episodes}
    metrics = read_metrics(tmp_path / "whole" / "metrics.jsonl")[0]
    assert metrics["scoring/scored_tokens"] == metrics["scored_tokens"] == metrics["sampled_tokens"]
    assert metrics["scoring/cached_tokens"] > metrics["scoring/read_tokens"]


@pytest.mark.parametrize("method", ["opd", "fast_opd", "tcod", "turnopd"])
def test_every_method_of_the_family_trains(models, tmp_path, method) -> None:
    data = config(models, method={"kind": method}, train={"steps": 2, "tasks_per_step": 3})
    train(data, tmp_path)
    for record in steps(tmp_path):
        assert record["update/grad_norm"] > 0
        assert record["teacher_gap"] != 0


def test_a_teacher_for_each_domain(models, tmp_path) -> None:
    one = config(models)["scoring"]
    run = build_run(load_run_config(config(models, scoring={"default": one})), tmp_path)
    assert list(run.teachers.scoring) == [""]
    with pytest.raises(ConfigError, match=r"add scoring\.default"):
        build_run(load_run_config(config(models, scoring={"shop": one})), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scoring": {}}, r"set scoring\.kind"),
        ({"method": {"kind": "grpo"}}, "asks no scoring teacher"),
        ({"scoring": {"kind": "local", "model": "/nowhere"}}, r"scoring\.model is '/nowhere'"),
        ({"scoring": {"kind": "lokal"}}, "did you mean 'local'"),
        ({"scoring": {"shop": {"kind": "local", "model": "/nowhere"}}}, r"scoring\.shop\.model is"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(models, tmp_path, changes, message) -> None:
    with pytest.raises(ConfigError, match=message):
        build_run(load_run_config(config(models, **changes)), tmp_path)


def test_evaluation_needs_no_scoring_teacher(models, tmp_path) -> None:
    data = config(models, scoring={"kind": "local", "model": "/nowhere"})
    build_run(load_run_config(data), tmp_path, training=False)
