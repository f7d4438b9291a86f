from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from turnpoint.inspector import page as page_module
from turnpoint.inspector import plan, write_page
from turnpoint.inspector.page import data_file

from .conftest import embedded
from .samples import make_episode, write_episodes


def test_a_small_run_is_one_file(tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    write_episodes(source, [make_episode(random.Random(i), f"e{i}", train=True) for i in range(5)])
    written = write_page(plan(source), tmp_path / "page.html")
    text = written.page.read_text(encoding="utf-8")
    assert written.data is None
    assert written.episodes == len(embedded(text, "data")["episodes"]) == 5
    details = embedded(text, "details")
    for entry in embedded(text, "data")["episodes"]:
        assert details[entry["c"]][entry["p"]]["id"] == entry["id"]
    assert "strict-dynamic" not in text
    assert {p.name for p in tmp_path.iterdir()} == {"e.jsonl", "page.html"}


def test_a_large_run_has_data_files_beside_it(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "_INLINE_CHARACTERS", 1000)
    out = tmp_path / "page.html"
    stale = tmp_path / "page_data" / "99-0.js"
    stale.parent.mkdir()
    stale.write_text("old")
    other = tmp_path / "page_data" / "notes.txt"
    other.write_text("mine")
    written = write_page(plan(run_folder), out)
    text = out.read_text(encoding="utf-8")
    assert written.data == tmp_path / "page_data"
    assert 'id="details"' not in text
    assert "'strict-dynamic'" in text.replace("&#39;", "'")
    needed = {f"{entry['c']}.js" for entry in embedded(text, "data")["episodes"]}
    assert {p.name for p in written.data.iterdir()} == needed | {"notes.txt"}
    monkeypatch.undo()
    write_page(plan(run_folder / "eval" / "step_000000.jsonl"), out)
    assert {p.name for p in (tmp_path / "page_data").iterdir()} == {"notes.txt"}


def test_a_data_file_is_one_call_with_a_string() -> None:
    details = [{"__proto__": 1, "text": "</script>\u2028'\"\\", "n": None}, None]
    found = re.fullmatch(r'TP\.receive\("0-1",("(?:[^"\\]|\\.)*")\);\n', data_file("0-1", details))
    assert found
    assert json.loads(json.loads(found.group(1))) == details
    assert "<" not in found.group(1)


def test_hostile_text_never_becomes_markup(tmp_path: Path) -> None:
    attack = "</script><img src=x onerror=alert(1)><!--\u202e"
    episode = make_episode(random.Random(1), attack, turns=2, text=attack)
    episode.task = type(episode.task)(attack, attack, attack, attack)
    episode.turns[0].response = episode.turns[0].action = attack
    source = tmp_path / "<e>.jsonl"
    write_episodes(source, [episode])
    text = write_page(plan(source), tmp_path / "p.html").page.read_text(encoding="utf-8")
    assert "<img" not in text
    assert "<!--" not in text
    assert "\u202e" not in text
    assert text.count("<script") == text.count("</script>") == 3


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    write_episodes(source, [make_episode(random.Random(1), "a")])
    with source.open("a") as file:
        file.write("torn <b>")
    written = write_page(plan(source), tmp_path / "p.html")
    assert written.episodes == 1
    assert written.notes[0].startswith("e.jsonl:2:")
    assert "e.jsonl:2:" in written.page.read_text(encoding="utf-8")
