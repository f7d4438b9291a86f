from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from turnpoint.cli import app
from turnpoint.records import EpisodeWriter
from turnpoint.testing import play_actions, toy_suite


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    suite = toy_suite()
    path = tmp_path / "some.jsonl"
    with EpisodeWriter(path) as writer:
        for task in suite.tasks("train")[:3]:
            env = suite.make()
            writer.write(play_actions(env, task, [env.reset(task).admissible[0]]))
    return path


def inspect(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def test_the_page_lies_beside_the_file(episodes: Path) -> None:
    result = inspect(episodes)
    assert result.exit_code == 0
    page = episodes.with_suffix(".html")
    assert result.stdout.strip() == str(page)
    assert "<title>some.jsonl" in page.read_text(encoding="utf-8")


def test_out_and_json(episodes: Path, tmp_path: Path) -> None:
    result = inspect(episodes, "--out", tmp_path / "deep" / "p.html", "--json")
    assert json.loads(result.stdout) == {
        "page": str(tmp_path / "deep" / "p.html"),
        "episodes": 3,
        "notes": [],
    }
    assert (tmp_path / "deep" / "p.html").is_file()


def test_unreadable_lines_are_notes(episodes: Path) -> None:
    with episodes.open("a") as file:
        file.write("torn")
    result = inspect(episodes, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["notes"][0].startswith("some.jsonl:4:")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{path}.none"], "does not exist"),
        (["{path}", "--serve", "--terminal"], "exclude each other"),
        (["{path}", "--serve", "--out", "x.html"], "leave out --serve"),
        (["{path}", "--out", "{path}"], "would overwrite"),
    ],
)
def test_wrong_use_is_said_with_code_2(episodes: Path, arguments: list[str], words: str) -> None:
    before = episodes.read_bytes()
    result = inspect(*(argument.format(path=episodes) for argument in arguments))
    assert result.exit_code == 2
    assert words in result.stderr
    assert episodes.read_bytes() == before


def test_without_an_episode_no_page_is_written_over_another(tmp_path: Path) -> None:
    broken = {"version": 1, "id": "x", "task": {"id": "t", "env": "e", "type": 5}, "turns": []}
    (tmp_path / "e.jsonl").write_text(json.dumps(broken) + "\n")
    (tmp_path / "e.html").write_text("an earlier page")
    result = inspect(tmp_path / "e.jsonl")
    assert result.exit_code == 2
    assert "there is no episode to show" in result.output
    assert "task.type is 5" in result.output
    assert (tmp_path / "e.html").read_text() == "an earlier page"


def test_without_a_terminal_there_is_nothing_to_draw_on(episodes: Path) -> None:
    pytest.importorskip("textual")
    result = inspect(episodes, "--terminal")
    assert result.exit_code == 2
    assert "needs a terminal" in result.output


def test_what_a_file_says_cannot_change_the_terminal(tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    source.write_text(json.dumps({"\x1b]0;pwned\x07": 1}) + "\n")
    result = inspect(source)
    assert result.exit_code == 2
    assert "\x1b" not in result.output
    assert "pwned" in result.output


def test_without_textual_the_terminal_says_how_to_get_it(
    episodes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "turnpoint.inspector.terminal.app", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    result = inspect(episodes, "--terminal")
    assert result.exit_code == 2
    assert "pip install 'turnpoint[inspect]'" in result.stderr


def test_a_port_in_use_is_said(episodes: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = inspect(episodes, "--serve", "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "cannot be used" in result.stderr
