from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnpoint.exchange import ExchangeReport, detect_format, native_target, read_foreign
from turnpoint.records import read_episodes

CHATS = [{"id": f"c{n}", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": f"look {n}"}]}
         for n in range(3)]  # fmt: skip
RESULTS = [{"example_id": n, "prompt": "guess", "completion": "crane", "reward": 1.0} for n in range(3)]
DUMPS = [{"input": "What is 1+1?", "output": "2", "score": 1.0, "step": n} for n in range(3)]


@pytest.mark.parametrize("file", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("records", "name"), [(CHATS, "chat"), (RESULTS, "verifiers"), (DUMPS, "verl")])
def test_a_list_is_read_as_a_whole(
    records: list[Any], name: str, indent: int | None, file: str, tmp_path: Path
) -> None:
    path, report = tmp_path / file, ExchangeReport()
    path.write_text("\n" + json.dumps([*records, "no record"], indent=indent))
    assert detect_format(path).name == name
    assert len(list(read_foreign(path, report))) == 3
    assert report.problems == [f"{file}:4: not a JSON object"]


def test_a_json_file_of_one_record_and_one_of_lines(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(CHATS[0], indent=1))
    (tmp_path / "lines.json").write_text("\n".join(json.dumps(chat) for chat in CHATS))
    assert [e.id for e in read_foreign(tmp_path / "one.json", ExchangeReport())] == ["c0"]
    assert [e.id for e in read_foreign(tmp_path / "lines.json", ExchangeReport())] == ["c0", "c1", "c2"]


def test_a_damaged_document_is_one_record_that_is_left_out(tmp_path: Path) -> None:
    path, report = tmp_path / "a.json", ExchangeReport()
    path.write_text(json.dumps(CHATS, indent=1)[:-5])
    assert list(read_foreign(path, report, name="chat")) == []
    assert report.problems == ["a.json:1: not JSON"]


@pytest.mark.parametrize("head", ["# written by a tool\n", "\n{torn\n\n", '"text"\n'])
def test_lines_of_a_json_file_are_read_where_the_first_is_bad(head: str, tmp_path: Path) -> None:
    path, report = tmp_path / "a.json", ExchangeReport()
    path.write_text(head + "\n".join(json.dumps(chat) for chat in CHATS))
    assert [e.id for e in read_foreign(path, report)] == ["c0", "c1", "c2"]
    assert sum(report.dropped.values()) == 1


def test_a_json_file_of_blank_lines_holds_nothing(tmp_path: Path) -> None:
    path, report = tmp_path / "a.json", ExchangeReport()
    path.write_text("\n\n")
    assert list(read_foreign(path, report, name="chat")) == []
    assert report.notes() == []


def test_a_line_that_is_a_list_does_not_hide_the_others(tmp_path: Path) -> None:
    path, report = tmp_path / "a.jsonl", ExchangeReport()
    path.write_text("\n".join(json.dumps(item) for item in ([], *CHATS)))
    assert len(list(read_foreign(path, report))) == 3
    assert report.dropped == {"not a JSON object": 1}


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"\xed\xa0\xbd"])
def test_half_of_a_surrogate_pair_does_not_cost_the_episode(half: bytes, tmp_path: Path) -> None:
    call = {"function": {"name": "go", "arguments": '{"to": "HALF"}'}}
    chat = {"id": "HALF", "messages": [{"role": "user", "content": "HALF"},
                                       {"role": "assistant", "content": "a HALF", "tool_calls": [call]}]}  # fmt: skip
    nested = json.dumps([{"role": "assistant", "content": "a HALF"}])
    result = {"prompt": "guess", "completion": nested, "reward": 1.0}
    for number, record in enumerate((chat, result)):
        path, report = tmp_path / f"{number}.jsonl", ExchangeReport()
        path.write_bytes(json.dumps(record).encode().replace(b"HALF", half) + b"\n")
        with native_target(path, report) as native:
            (episode,) = read_episodes(native)
        assert not report.dropped
        assert "\ufffd" in episode.turns[0].response
        assert report.changed["half of a surrogate pair, replaced by U+FFFD"] == (4, 1)[number]


def test_whole_pairs_stay(tmp_path: Path) -> None:
    path, report = tmp_path / "a.jsonl", ExchangeReport()
    path.write_text(json.dumps({"messages": [{"role": "assistant", "content": "\U0001f600 한국"}]}))
    (episode,) = read_foreign(path, report)
    assert episode.turns[0].response == "\U0001f600 한국"
    assert report.notes() == []
