from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.cli.targets import refuse_taken, spread
from turnpoint.config import ConfigError
from turnpoint.inspector.store import Source
from turnpoint.records import EpisodeWriter
from turnpoint.testing import play_actions, toy_suite


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """One recorded episode, and an unfinished line behind it."""
    suite, path = toy_suite(), tmp_path / "record.jsonl"
    with EpisodeWriter(path) as writer:
        writer.write(play_actions(suite.make(), suite.tasks("valid")[0], ["wait"], snapshots=False))
    path.write_text(path.read_text() + "unfinished")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["eval", "sokoban", "eval.tasks=1", "--agent", "random", "--episodes", "{path}"],
        ["replay", "{folder}", "{path}", "--out", "{path}"],
        ["recover", "{folder}", "{path}", "--out", "{path}"],
        ["diagnose", "{path}", "--save", "{path}"],
        ["export", "{path}", "{path}"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("taken", ["record.jsonl", "folder"])
def test_what_exists_is_not_written_to(record: Path, command: list[str], taken: str) -> None:
    """Neither the file that is read nor a folder, and it is said before anything is played."""
    (record.parent / "folder").mkdir()
    before = record.read_bytes()
    result = CliRunner().invoke(
        app, [a.format(path=record.parent / taken, folder=record.parent) for a in command]
    )
    assert result.exit_code == 2
    assert "exists already; name another file" in result.stderr
    assert record.read_bytes() == before
    assert {p.name for p in record.parent.iterdir()} == {"record.jsonl", "folder"}


def test_a_spread_of_episodes_keeps_to_the_first_lines(tmp_path: Path) -> None:
    suite, sources = toy_suite(), []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        with EpisodeWriter(path) as writer:
            for task in suite.tasks("valid")[10 * number : 10 * (number + 1)]:
                writer.write(play_actions(suite.make(), task, ["wait"], snapshots=False, episode_id=task.id))
        path.write_text(path.read_text() + "\n{\n")
        sources.append(Source("file", number, path))
    ids = [task.id for task in suite.tasks("valid")[:20]]
    assert [e.id for e in spread(sources, 100)] == ids
    assert [e.id for e in spread(sources, 100, limit=4)] == ids[:4]
    assert [e.id for e in spread(sources, 2, limit=4)] == [ids[0], ids[2]]
    assert [e.id for e in spread(sources, 4)] == [ids[0], ids[6], ids[11], ids[17]]


def test_a_new_file_needs_a_folder_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refuse_taken(None, "--out")
    refuse_taken(tmp_path / "new" / "folders" / "x.jsonl", "--out")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match=r"--out: .*file is not a folder"):
        refuse_taken(tmp_path / "file" / "x.jsonl", "--out")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="exists already"):
        refuse_taken(tmp_path / "dangling", "--out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="cannot be written"):
        refuse_taken(closed / "x.jsonl", "--out")
