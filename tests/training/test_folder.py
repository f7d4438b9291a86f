from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from turnpoint.config import ConfigError
from turnpoint.training.checkpoint import list_checkpoints
from turnpoint.training.folder import set_aside
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.view import View

OFTEN = ["train.checkpoint_every=1", "train.keep_checkpoints=9", "eval.every=1", "eval.tasks=2"]


class Notes(View):
    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, text: str) -> None:
        self.found.append(text)


def train(run) -> None:
    asyncio.run(Trainer(run, View()).train())


def resume(run, step: int, *, force: bool = False) -> list[str]:
    view = Notes()
    trainer = Trainer(run, view, force=force)
    trainer.resume(run.folder / "checkpoints" / f"step_{step:06d}")
    asyncio.run(trainer.train())
    return view.found


def by_step(folder: Path) -> dict[str, list[str]]:
    return {
        name: sorted(p.stem for p in (folder / name).iterdir())
        for name in ("checkpoints", "episodes", "eval")
    }


def test_an_abandoned_continuation_is_moved_aside(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path, OFTEN))
    partial = tmp_path / "checkpoints" / ".step_000009.partial"
    partial.mkdir()
    notes = resume(make_run(tmp_path, [*OFTEN, "train.steps=3"]), 1)
    steps = [f"step_{step:06d}" for step in range(4)]
    assert by_step(tmp_path) == {"checkpoints": steps[1:], "episodes": steps[1:], "eval": steps}
    (kept,) = (tmp_path / "abandoned").iterdir()
    assert any(str(kept) in note for note in notes)
    assert by_step(kept) == {
        "checkpoints": [".step_000009", "step_000002", "step_000003", "step_000004"],
        "episodes": ["step_000002", "step_000003", "step_000004"],
        "eval": ["step_000002", "step_000003", "step_000004"],
    }
    assert max(r["step"] for r in read_metrics(kept / "metrics.jsonl")) == 4
    assert max(r["step"] for r in read_metrics(tmp_path / "metrics.jsonl")) == 3
    assert (kept / "checkpoints" / "step_000004" / "state.json").is_file()


def test_the_newest_checkpoint_after_a_resume_is_its_own(tmp_path: Path, make_run) -> None:
    few = ["train.checkpoint_every=1", "eval.every=0"]
    train(make_run(tmp_path, [*few, "train.keep_checkpoints=4"]))
    resume(make_run(tmp_path, [*few, "train.keep_checkpoints=1", "train.steps=2"]), 1)
    assert [step for step, _ in list_checkpoints(tmp_path / "checkpoints")] == [2]
    assert Trainer(make_run(tmp_path), View()).resume() == 2


def test_looking_at_an_older_checkpoint_moves_nothing(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path, OFTEN))
    before = by_step(tmp_path)
    Trainer(make_run(tmp_path), View()).resume(tmp_path / "checkpoints" / "step_000001")
    assert by_step(tmp_path) == before
    assert not (tmp_path / "abandoned").exists()


def test_setting_aside_twice_in_a_second_keeps_both(tmp_path: Path) -> None:
    for content in ("one", "two"):
        (tmp_path / "eval").mkdir(exist_ok=True)
        (tmp_path / "eval" / "step_000002.jsonl").write_text(content)
        assert set_aside(tmp_path, 1) is not None
    texts = {p.read_text() for p in (tmp_path / "abandoned").rglob("*.jsonl")}
    assert texts == {"one", "two"}
    assert set_aside(tmp_path, 1) is None


def test_changed_settings_of_a_resumed_run_are_written(tmp_path: Path, make_run) -> None:
    def steps(name: str) -> int:
        return yaml.safe_load((tmp_path / name).read_text())["train"]["steps"]

    train(make_run(tmp_path, ["train.steps=2"]))
    resume(make_run(tmp_path, ["train.steps=3"]), 2)
    assert (steps("config.yaml"), steps("config.step_000002.yaml")) == (3, 2)
    resume(make_run(tmp_path, ["train.steps=4"]), 2)
    assert (steps("config.yaml"), steps("config.step_000002-2.yaml")) == (4, 3)
    resume(make_run(tmp_path), 4)
    assert not (tmp_path / "config.step_000004.yaml").exists()
    assert not list(tmp_path.glob("header.step_*"))


def change_header(folder: Path, **changes: object) -> None:
    path = folder / "header.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def hashed(run, digest: str):
    header = run.suite.header() | {"sha256": {"train": digest}}
    run.suite.header = lambda: header
    return run


def test_other_data_is_refused_unless_forced(tmp_path: Path, make_run) -> None:
    few = ["train.checkpoint_every=1", "train.keep_checkpoints=9"]
    train(hashed(make_run(tmp_path, few), "old"))
    before = by_step(tmp_path)
    with pytest.raises(ConfigError, match=r"sha256\.train was old, is new.*--force"):
        resume(hashed(make_run(tmp_path), "new"), 2)
    assert by_step(tmp_path) == before
    assert any("was old, is new" in note for note in resume(hashed(make_run(tmp_path), "new"), 2, force=True))
    assert json.loads((tmp_path / "header.json").read_text())["env"]["sha256"] == {"train": "new"}
    assert json.loads((tmp_path / "header.step_000002.json").read_text())["env"]["sha256"] == {"train": "old"}


def test_other_versions_are_noted(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path, ["train.steps=2"]))
    packages = json.loads((tmp_path / "header.json").read_text())["packages"]
    change_header(tmp_path, turnpoint="0.0.1", packages=packages | {"numpy": "1.0"})
    notes = " ".join(resume(make_run(tmp_path), 2))
    assert "turnpoint was 0.0.1" in notes
    assert "numpy was 1.0" in notes
    assert "torch" not in notes


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_missing_or_damaged_header_is_noted_and_written_again(tmp_path: Path, make_run, content) -> None:
    train(make_run(tmp_path, ["train.steps=2", "eval.before=false"]))
    path = tmp_path / "header.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert any("not compared" in note for note in resume(make_run(tmp_path, ["train.steps=2"]), 2))
    assert json.loads(path.read_text())["packages"]
