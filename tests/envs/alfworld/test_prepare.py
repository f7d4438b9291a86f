"""What needs no engine: taking games out of an archive, and pinning them."""

from __future__ import annotations

import itertools
import json
import lzma
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.envs import EnvDataError
from turnpoint.envs.alfworld.games import GameFolder
from turnpoint.envs.alfworld.prepare import prepare_games
from turnpoint.envs.alfworld.settings import AlfworldSettings

FOLDERS = {"train": "train", "valid": "valid_seen"}
GRAMMAR = 'grammar :: """ { "task": [ { "rhs": "Your task is to: put a mug on desk." } ] } """; put: "move {o} to {r}"'
GAME = {"pddl_domain": "d", "grammar": GRAMMAR, "pddl_problem": "p", "solvable": True, "walkthrough": []}


def game(**changes: object) -> str:
    return json.dumps(GAME | changes)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "json_2.1.1_tw-pddl.zip"
    with zipfile.ZipFile(path, "w") as made:
        for split, number in (("train", 1), ("train", 2), ("valid_seen", 3)):
            made.writestr(
                f"json_2.1.1/{split}/pick_and_place_simple-Mug-None-Desk-{number}/trial_1/game.tw-pddl",
                game(),
            )
        made.writestr("json_2.1.1/train/pick-Mug-None-Desk-9/trial_1/traj_data.json", "{}")
        made.writestr("json_2.1.1/train/pick_two-movable-Desk-9/trial_1/game.tw-pddl", game())
        made.writestr("json_2.1.1/train/pick-Mug-None-Desk-8/trial_1/game.tw-pddl", game(solvable=False))
    return path


def test_an_archive_becomes_pinned_games(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    facts = prepare_games(archive, out)
    assert {split: found["games"] for split, found in facts["splits"].items()} == {
        "train": 2,
        "valid_seen": 1,
    }
    assert facts["left_out"] == 2
    assert not facts["splits"]["train"]["tested"]
    folder = GameFolder(out, FOLDERS)
    assert folder.pinned
    assert len(folder.tasks("train")) == 2
    assert folder.hash("train") == facts["splits"]["train"]["sha256"]
    task = folder.tasks("valid")[0]
    assert (task.instruction, task.type) == ("put a mug on desk.", "pick_and_place_simple")
    assert prepare_games(archive, out) == facts  # again: the same


def test_a_folder_is_as_good_as_its_archive(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    first = prepare_games(archive, tmp_path / "a")
    second = prepare_games(tmp_path / "unpacked", tmp_path / "b")
    assert first["splits"] == second["splits"]


def test_splits_that_are_prepared_one_by_one_are_all_pinned(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    whole = prepare_games(archive, tmp_path / "whole")
    out, (root,) = tmp_path / "out", (tmp_path / "unpacked").iterdir()
    prepare_games(root / "train", out)
    assert not GameFolder(out, {"train": "train"} | {"valid": "valid_seen"}).pinned
    assert list(prepare_games(root / "valid_seen", out)["splits"]) == ["valid_seen"]
    assert GameFolder(out, FOLDERS).pinned
    assert json.loads((out / "manifest.json").read_text())["splits"] == whole["splits"]
    changed = next((out / "train").rglob("game.tw-pddl"))
    changed.write_text(game(walkthrough=["look"]))
    with pytest.raises(EnvDataError, match="not those that were prepared"):
        GameFolder(out, FOLDERS)


def test_a_split_of_two_sources_is_refused(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare_games(archive, out)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as made:
        made.writestr("train/pick_and_place_simple-Mug-None-Desk-7/trial_1/game.tw-pddl", game())
    with pytest.raises(EnvDataError, match="comes from somewhere else"):
        prepare_games(tmp_path / "other.zip", out)


def test_a_changed_game_is_noticed(archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare_games(archive, out)
    changed = next((out / "train").rglob("game.tw-pddl"))
    changed.write_text(game(walkthrough=["look"]))
    with pytest.raises(EnvDataError, match="not those that were prepared"):
        GameFolder(out, FOLDERS)
    with pytest.raises(EnvDataError, match="exists already and is another game"):
        prepare_games(archive, out)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("json/train/../../../x/trial/game.tw-pddl", game(), "is not the name of a game"),
        ("json/train/a b;c/trial/game.tw-pddl", game(), "is not the name of a game"),
        ("json/other/task/trial/game.tw-pddl", game(), "in none of the splits"),
        ("json/train/task/trial/game.tw-pddl", game()[:50], "not a complete JSON file"),
        ("json/train/task/trial/game.tw-pddl", game(grammar="x"), "no task sentence"),
        (
            "json/train/task/trial/game.tw-pddl",
            game(grammar=GRAMMAR.replace("move {o} to {r}", "throw {o}")),
            "neither 'move",
        ),
        ("json/train/task/trial/other.json", "{}", "holds no playable"),
    ],
)
def test_unusable_archives_say_why(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / "games.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(name, content)
    with pytest.raises(EnvDataError, match=message):
        prepare_games(path, tmp_path / "out")
    assert not (tmp_path / "x").exists()


def test_a_broken_archive_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "games.zip"
    path.write_bytes(b"PK\x03\x04 cut short")
    result = CliRunner().invoke(app, ["envs", "prepare", "alfworld", str(path), "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not a whole zip file" in result.output


def test_the_command_prints_hashes(archive: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["envs", "prepare", "alfworld", str(archive), "--out", str(tmp_path), "--json"]
    )
    facts = json.loads(result.output)
    assert len(facts["source_sha256"]) == len(facts["splits"]["train"]["sha256"]) == 64
    assert Path(facts["folder"]) == tmp_path / "alfworld"


def test_released_games_are_recognised(shared_data: Path, tmp_path: Path) -> None:
    data = shared_data / "alfworld"
    template = json.loads((data / "template.json").read_text())
    with (
        zipfile.ZipFile(tmp_path / "all.zip", "w") as made,
        lzma.open(data / "valid_seen.jsonl.xz", "rt") as lines,
    ):
        for line in itertools.islice(lines, None):
            row = json.loads(line)
            document = {
                "pddl_domain": template["pddl_domain"],
                "grammar": template["grammar"].replace("@TASK@", row["task"]),
                "pddl_problem": row["problem"],
                "solvable": True,
                "walkthrough": row["walkthrough"],
            }
            made.writestr(f"json_2.1.1/valid_seen/{row['id']}/game.tw-pddl", json.dumps(document))
    facts = prepare_games(tmp_path / "all.zip", tmp_path / "out")
    assert facts["splits"]["valid_seen"]["games"] == 140
    assert facts["splits"]["valid_seen"]["tested"]
    assert facts["grammar"] == {"move": 140}


def test_without_the_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AlfworldSettings, "packages", ("surely_not_installed",))
    with pytest.raises(EnvDataError, match=r"pip install 'turnpoint\[alfworld\]'"):
        AlfworldSettings().build()
