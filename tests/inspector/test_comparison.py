from __future__ import annotations

import html
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest

from turnpoint.inspector.compare_page import sparkline, standalone_svg, write_comparison, write_svgs
from turnpoint.inspector.comparison import as_dict, mcnemar, pairings, read_runs
from turnpoint.inspector.plots import Series
from turnpoint.records import (
    Episode,
    EpisodeReader,
    EpisodeWriter,
    Observation,
    RecordError,
    StopReason,
    Task,
    Turn,
)
from turnpoint.training.metrics import MetricsLog

from .conftest import plain_text

HOSTILE = "<script>alert(1)</script>\u202e"


def make_run(folder: Path, solved: list[bool], name: str = "run", *, seconds: bool = True) -> Path:
    """Two steps, two evaluations, and the episodes of the last one."""
    log = MetricsLog(folder / "metrics.jsonl")
    rate = sum(solved) / len(solved)
    for step, success in ((0, 0.25), (2, rate)):
        interval = {"mean": success, "low": success - 0.1, "high": success + 0.1, "n": len(solved)}
        log.write(step, "eval", {"success": interval, "turns": {"mean": 5, "low": 4, "high": 6, "n": 4}})
    for step in (1, 2):
        values = {"success": 0.5, "interactions": 100.0, "sampled_tokens": 1000.0}
        log.write(step, "train", values | ({"seconds": 2.5} if seconds else {}))
    log.close()
    (folder / "config.yaml").write_text(json.dumps({"name": name}))
    with EpisodeWriter(folder / "eval" / "step_000002.jsonl") as writer:
        for number, success in enumerate(solved):
            stop = StopReason.SUCCESS if success else StopReason.FAILURE
            task = Task(f"t{number // 2}", "toy")
            writer.write(Episode(f"e{number}", task, [Turn(0, Observation("o"))], stop, success))
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    first = make_run(tmp_path / "a", [True, False, False, False, True, False], HOSTILE)
    second = make_run(tmp_path / "b", [True, True, True, False, False, True], "other", seconds=False)
    return [first, second]


def test_curves_over_every_axis(folders: list[Path]) -> None:
    found = as_dict(read_runs(folders))["runs"]
    curves = found[0]["held_out_success"]
    assert [p["x"] for p in curves["steps"]] == [0, 2]
    assert [p["x"] for p in curves["interactions"]] == [0, 200]
    assert [p["x"] for p in curves["tokens"]] == [0, 2000]
    assert [p["x"] for p in curves["seconds"]] == [0, 5]
    assert curves["steps"][0] == {"x": 0, "mean": 0.25, "low": 0.15, "high": 0.35}
    assert found[1]["held_out_success"]["seconds"] == []
    assert [p["x"] for p in found[0]["training_success"]["tokens"]] == [1000, 2000]
    assert found[0]["spent"]["seconds"] == 5
    assert found[1]["spent"]["seconds"] is None


def test_pairs_are_the_same_episodes(folders: list[Path]) -> None:
    (pair,) = pairings(read_runs(folders))
    # Of the three tasks with two episodes each, two are solved once more often and one as often as before.
    assert (pair.better, pair.worse, pair.gain.n) == (2, 0, 6)
    assert pair.gain.mean == pytest.approx(2 / 6)
    assert pair.p == pytest.approx(2 * 1 / 4)


def edit_episodes(run: Path, edit: Callable[[Episode], None]) -> Path:
    (file,) = (run / "eval").iterdir()
    found = list(EpisodeReader(file))
    file.unlink()
    with EpisodeWriter(file) as writer:
        for episode in found:
            edit(episode)
            writer.write(episode)
    return run


@pytest.mark.parametrize(
    "change", [{"env": "other"}, {"data": {"objects": 6}}, {"instruction": "another game"}, {"seed": 7}]
)
def test_games_of_equal_numbers_are_not_the_same_games(
    folders: list[Path], tmp_path: Path, change: dict[str, Any]
) -> None:
    def another(episode: Episode) -> None:
        episode.task = replace(episode.task, **change)

    other = edit_episodes(make_run(tmp_path / "c", [True] * 6), another)
    assert pairings(read_runs([folders[0], other])) == []


def test_games_with_other_numbers_of_turns_are_not_the_same_games(folders: list[Path]) -> None:
    for folder, turns in zip(folders, (14, 30), strict=True):
        (folder / "config.yaml").write_text(json.dumps({"name": folder.name, "env": {"max_turns": turns}}))
    assert pairings(read_runs(folders)) == []


def test_an_episode_without_outcome_does_not_shift_those_after_it(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", [True, False], "a")
    second = make_run(tmp_path / "b", [True, False], "b")

    def lost(episode: Episode) -> None:
        if episode.id == "e0":
            episode.stop, episode.success = StopReason.ENV_ERROR, None

    (pair,) = pairings(read_runs([first, edit_episodes(second, lost)]))
    assert (pair.gain.n, pair.gain.mean) == (1, 0)


def test_runs_without_common_tasks_are_not_paired(folders: list[Path], tmp_path: Path) -> None:
    third = make_run(tmp_path / "c", [True])
    for file in (third / "eval").iterdir():
        file.write_text(file.read_text().replace('"t0"', '"elsewhere"'))
    assert len(pairings(read_runs([*folders, third]))) == 1


@pytest.mark.parametrize(
    ("better", "worse", "p"), [(0, 0, 1.0), (5, 5, 1.0), (8, 0, 2 / 256), (0, 8, 2 / 256)]
)
def test_mcnemar(better: int, worse: int, p: float) -> None:
    assert mcnemar(better, worse) == pytest.approx(p)
    assert mcnemar(3, 1) == pytest.approx(2 * (comb(4, 0) + comb(4, 1)) / 16)


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, [True, False], "same") for name in "abc"]
    assert [run.name for run in read_runs(runs)] == ["same", "same (2)", "same (3)"]


def test_the_page_escapes_names_and_loads_nothing(folders: list[Path], tmp_path: Path) -> None:
    page = write_comparison(read_runs(folders), tmp_path / "out" / "c.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "default-src 'none'" in html.unescape(page)
    text = plain_text(page)
    assert "+33.3 points" in text
    assert "Held-out success by sampled tokens" in text
    assert "http" not in page.replace("http-equiv", "")


def test_svg_files_stand_alone(folders: list[Path], tmp_path: Path) -> None:
    written = write_svgs(read_runs(folders), tmp_path / "svg")
    assert {p.name for p in written} >= {"held-out-steps.svg", "training-tokens.svg"}
    for path in written:
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag.endswith("svg")
        assert not [e for e in root.iter() if e.tag.endswith("script")]


def test_many_runs_share_charts_by_fours(tmp_path: Path) -> None:
    runs = read_runs([make_run(tmp_path / f"r{i}", [True, False], f"r{i}") for i in range(5)])
    names = {p.name for p in write_svgs(runs, tmp_path / "svg")}
    assert {"held-out-steps-1.svg", "held-out-steps-2.svg"} <= names


def test_a_legend_names_the_drawn_curves_only() -> None:
    svg = standalone_svg("t", "x", [Series("drawn", [0, 1], [0.1, 0.2]), Series("empty", [0], [None])])
    assert "drawn" in svg
    assert "empty" not in svg


def test_sparkline() -> None:
    assert sparkline(Series("s", [0, 1, 2], [0.0, 0.5, 1.0])) == "▁▅█"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="no metrics"):
        read_runs([tmp_path / "empty"])
    with pytest.raises(FileNotFoundError):
        read_runs([tmp_path / "none"])
