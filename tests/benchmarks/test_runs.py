"""Benchmarks of many training runs: what they would train, and that stopped runs are not taken for finished ones."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from turnpoint.training.settings import load_run_config

ROOT = Path(__file__).resolve().parents[2]


class Stop(Exception):
    """Ends a benchmark once it has said what to train."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(ROOT)
    return import_module("benchmarks.runs")


@pytest.mark.parametrize(
    ("name", "count"),
    [("chains", 6), ("distillation", 5), ("knowledge", 2), ("noisy_teacher", 6), ("pivotopd", 4)],
)
def test_every_job_is_a_run_that_can_be_made(
    name: str, count: int, runs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = []

    def stop(jobs, out, *, processes):
        found.extend(jobs)
        raise Stop

    monkeypatch.setattr(runs, "run_all", stop)
    options = ["--seeds", "3", "4", "--tasks", "17", "--out", str(tmp_path), "--set", "train.steps=2"]
    monkeypatch.setattr(sys, "argv", [name, *options])
    with pytest.raises(Stop):
        import_module(f"benchmarks.{name}").main()
    assert len({job.name for job in found}) == len(found) == 2 * count
    for job in found:
        config = load_run_config(Path(job.recipe), list(job.overrides))
        assert (config.eval.tasks, config.train.steps, config.train.checkpoint_every) == (17, 2, 0)
        assert job.name.endswith(f"-{config.seed}")
    assert {load_run_config(Path(job.recipe), list(job.overrides)).seed for job in found} == {3, 4}


def test_a_stopped_run_goes_on_or_begins_anew(
    runs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = []

    def fake(*arguments: str, log: Path | None = None) -> str:
        calls.append(arguments[:2])
        folder = Path(arguments[1]) if arguments[0] == "resume" else tmp_path / arguments[-1].split("=")[1]
        if arguments[0] == "train":
            assert not folder.exists()
            folder.mkdir()
            (folder / "metrics.jsonl").write_text('{"kind": "eval", "step": 9}\n')
        (folder / "report.html").write_text("done")
        return ""

    monkeypatch.setattr(runs, "turnpoint", fake)
    for name in ("stopped", "saved", "finished"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text('{"kind": "eval", "step": 0}\n')
    (tmp_path / "saved/checkpoints/step_000003").mkdir(parents=True)
    (tmp_path / "finished/report.html").write_text("done")
    jobs = [runs.Job(name, "r.yaml") for name in ("new", "stopped", "saved", "finished")]
    folders = runs.run_all(jobs, tmp_path, processes=1)
    assert calls == [("train", "r.yaml"), ("train", "r.yaml"), ("resume", str(tmp_path / "saved"))]
    steps = {name: runs.records(folder, "eval")[-1]["step"] for name, folder in folders.items()}
    assert steps == {"new": 9, "stopped": 9, "saved": 0, "finished": 0}
