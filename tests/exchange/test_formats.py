from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnpoint.exchange import (
    ExchangeReport,
    as_native,
    convert,
    detect_format,
    format_names,
    native_target,
    read_foreign,
    write_foreign,
)
from turnpoint.records import (
    Episode,
    EpisodeWriter,
    Message,
    RecordError,
    StopReason,
    episode_to_dict,
    read_episodes,
)
from turnpoint.testing import play_actions, play_oracle, toy_suite

WRITTEN = [("chat", "a.jsonl"), ("verifiers", "a.jsonl"), ("atif", "a.json"), ("atif", "a.jsonl"),
           ("inspect", "a.eval"), ("inspect", "a.json"), ("turnpoint", "a.jsonl")]  # fmt: skip


def games() -> list[Episode]:
    """One solved and one failed game."""
    suite = toy_suite(rooms=3)
    first, second = suite.tasks("train")[:2]
    failed = play_actions(suite.make(), second, ["wait", "switch on lamp", "wait"], snapshots=False)
    solved = play_oracle(suite.make(), first)
    solved.id = "solved/<script>alert(1)</script>\u202e"
    return [solved, failed]


def read(path: Path, **options: Any) -> tuple[list[Episode], ExchangeReport]:
    report = ExchangeReport()
    return list(read_foreign(path, report, **options)), report


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


@pytest.mark.parametrize(("name", "file"), WRITTEN)
def test_round_trip(name: str, file: str, tmp_path: Path) -> None:
    before, report = games(), ExchangeReport()
    write_foreign(before, tmp_path / file, report, name=name)
    assert (report.episodes, dict(report.dropped)) == (2, {})
    assert detect_format(tmp_path / file).name == name
    after, back = read(tmp_path / file)
    assert (back.episodes, dict(back.dropped)) == (2, {})
    for old, new in zip(before, after, strict=True):
        assert (new.id, new.task.id, new.task.type, new.task.env) == (
            old.id, old.task.id, old.task.type, old.task.env,
        )  # fmt: skip
        assert (new.success, new.stop, new.total_reward) == (old.success, old.stop, old.total_reward)
        assert [t.response for t in new.turns] == [t.response for t in old.turns]
        assert [t.executed for t in new.turns] == [t.executed for t in old.turns]
        assert [t.observation.text for t in new.turns[1:]] == [t.observation.text for t in old.turns[1:]]
        assert new.turns[0].observation.text.endswith(old.turns[0].observation.text)
        assert new.final_observation.text == old.final_observation.text


@pytest.mark.parametrize(("name", "file"), WRITTEN)
def test_roles_that_no_other_tool_knows_come_back(name: str, file: str, tmp_path: Path) -> None:
    (solved, _) = games()
    solved.turns = solved.turns[:1]
    solved.turns[0].messages = (Message("environment", "A room."),)
    write_foreign([solved], tmp_path / file, ExchangeReport(), name=name)
    ((back,), report) = read(tmp_path / file)
    assert episode_to_dict(back) == episode_to_dict(solved)
    assert report.notes() == []


@pytest.mark.parametrize(("name", "file"), WRITTEN)
def test_what_json_cannot_hold_is_counted_and_costs_no_other_episode(
    name: str, file: str, tmp_path: Path
) -> None:
    bad, good = games()
    report = ExchangeReport()
    for value in (float("nan"), 0.0):
        if not value:
            bad.turns[0].response = "half \ud83d"
        bad.turns[0].reward = value
        with pytest.raises(RecordError, match=r"no episode can be written to .*1 records left out"):
            write_foreign([bad], tmp_path / file, ExchangeReport(), name=name)
        assert list(tmp_path.iterdir()) == []
    empty = Episode("empty", good.task)
    write_foreign([empty, bad, good], tmp_path / file, report, name=name)
    assert report.dropped["surrogates not allowed"] == 1
    assert report.dropped["no turns"] == (name != "turnpoint")
    ids = [e.id for e in read(tmp_path / file)[0]]
    assert ids == ["empty"] * (name == "turnpoint") + [good.id]
    assert report.episodes == len(ids)


@pytest.mark.parametrize(("name", "file"), WRITTEN)
def test_nothing_half_written_is_left(name: str, file: str, tmp_path: Path) -> None:
    def torn() -> Iterator[Episode]:
        yield from games()
        raise RecordError("the third is torn")

    with pytest.raises(RecordError, match="the third is torn"):
        write_foreign(torn(), tmp_path / file, ExchangeReport(), name=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "file"), WRITTEN)
def test_evaluations_of_several_steps_keep_their_ids(name: str, file: str, tmp_path: Path) -> None:
    before = [*games(), *games()]
    for episode in before[2:]:
        episode.step = 4
    write_foreign(before, tmp_path / file, ExchangeReport(), name=name)
    after, report = read(tmp_path / file)
    assert [(e.id, e.step) for e in after] == [(e.id, e.step) for e in before]
    assert report.notes() == []


def test_episodes_that_json_has_no_form_for_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, good = games()
    odd.info = {"at": datetime(2026, 1, 1, tzinfo=UTC)}

    def found(path: Path, report: ExchangeReport, *, name: str | None) -> Iterator[Episode]:
        report.episodes += 2
        yield from (odd, good)

    monkeypatch.setattr(convert, "read_foreign", found)
    report = ExchangeReport()
    assert [e.id for e in read_episodes(as_native(tmp_path / "x", tmp_path / "n.jsonl", report))] == [good.id]
    assert (report.episodes, sum(report.dropped.values())) == (1, 1)


def test_token_ids_survive_atif(tmp_path: Path) -> None:
    (episode, _) = games()
    for turn in episode.turns:
        turn.prompt_ids, turn.response_ids, turn.logprobs = (1, 2), (3, 4), (-0.5, -1.0)
    write_foreign([episode], tmp_path / "a.json", ExchangeReport(), name="atif")
    ((back,), _) = read(tmp_path / "a.json")
    assert [(t.prompt_ids, t.response_ids, t.logprobs) for t in back.turns] == [
        ((1, 2), (3, 4), (-0.5, -1.0))
    ] * len(back.turns)


def test_every_format_that_is_written_is_read() -> None:
    assert set(format_names(writing=True)) <= set(format_names())
    assert set(format_names()) - set(format_names(writing=True)) == {"verl"}


class TestChat:
    def test_tools_parts_and_reasoning(self, tmp_path: Path) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "go", "arguments": '{"to": "shelf 1"}'}}
        chat = {
            "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": [{"type": "text", "text": "Find it"}, {"type": "image_url"}]},
                {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
                {"role": "tool", "content": "You see a key."},
                {"role": "assistant", "content": "done"},
            ],
            "reward": 1,
            "unheard_of": 3,
        }
        ((episode,), report) = read(lines(tmp_path / "c.jsonl", chat))
        assert episode.turns[0].observation.text == "Find it\n[image_url]"
        assert episode.turns[0].action == 'go({"to": "shelf 1"})'
        assert episode.turns[0].response.startswith("<think>hm</think>")
        assert episode.turns[1].observation.text == "You see a key."
        assert episode.turns[1].messages[0].role == "system"
        assert episode.success
        assert dict(report.changed) == {"content part of type image_url": 1, "field 'unheard_of'": 1}

    def test_sharegpt(self, tmp_path: Path) -> None:
        talk = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "look"}]}
        ((episode,), _) = read(lines(tmp_path / "c.jsonl", talk))
        assert (episode.turns[0].observation.text, episode.turns[0].action) == ("hi", "look")
        assert episode.success is None

    def test_every_line_that_is_left_out_has_a_reason(self, tmp_path: Path) -> None:
        good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        path = lines(
            tmp_path / "c.jsonl", good, "torn {", ["list"], {"messages": []}, {"messages": ["x"]},
            {"messages": [{"role": "wizard", "content": "x"}]}, {"other": 1}, good,
        )  # fmt: skip
        found, report = read(path)
        assert len(found) == 2
        assert sum(report.dropped.values()) == 6
        assert report.dropped["not JSON"] == 1
        assert report.dropped["no assistant message"] == 1
        assert "c.jsonl:2: not JSON" in report.problems
        assert any("wizard" in reason for reason in report.dropped)

    def test_outcomes_as_other_tools_write_them(self, tmp_path: Path) -> None:
        talk = {"messages": [{"role": "assistant", "content": "b"}]}
        told = [{"success": 1}, {"success": 0}, {"resolved": "true"}, {"success": None, "resolved": False}]
        found, report = read(lines(tmp_path / "c.jsonl", *(talk | fields for fields in told), talk))
        assert [e.success for e in found] == [True, False, True, False, None]
        assert not report.changed

    def test_notes_are_kept_or_counted(self, tmp_path: Path) -> None:
        talk = {"messages": [{"role": "assistant", "content": "b"}], "metadata": {"a": 1}}
        found, report = read(lines(tmp_path / "c.jsonl", talk | {"info": {"b": 2}}, talk | {"info": "text"}))
        assert [e.info for e in found] == [{"source": "chat", "a": 1, "b": 2}, {"source": "chat", "a": 1}]
        assert report.changed == {"field 'info'": 1}

    def test_ids_that_repeat_are_told_apart(self, tmp_path: Path) -> None:
        chat = {"id": "x", "messages": [{"role": "assistant", "content": "b"}]}
        found, report = read(lines(tmp_path / "c.jsonl", chat, chat, chat))
        assert [e.id for e in found] == ["x", "x~2", "x~3"]
        assert report.changed == {"id that repeats, told apart by a number": 2}


class TestVerl:
    CHATML = (
        "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nFind it<|im_end|>\n<|im_start|>assistant\n",
        "<tool_call>look</tool_call><|im_end|>\n<|im_start|>user\nA room.<|im_end|>\n"
        "<|im_start|>assistant\ngo<|im_end|>",
    )
    PLAIN = (
        "system\nrules\nuser\nFind it\nassistant\n",
        "<tool_call>look</tool_call>\nuser\nA room.\nassistant\ngo",
    )
    LLAMA = (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nFind it<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<tool_call>look</tool_call><|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\nA room.<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\ngo<|eot_id|>",
    )

    @pytest.mark.parametrize("pair", [CHATML, PLAIN, LLAMA])
    def test_text_is_split_at_role_marks(self, pair: tuple[str, str], tmp_path: Path) -> None:
        dump = {"input": pair[0], "output": pair[1], "gts": "x", "score": 0.5, "step": 7, "acc": True}
        ((episode,), _) = read(lines(tmp_path / "7.jsonl", dump))
        assert [t.observation.text for t in episode.turns] == ["Find it", "A room."]
        assert [t.response for t in episode.turns] == ["<tool_call>look</tool_call>", "go"]
        assert (episode.step, episode.success, episode.total_reward) == (7, True, 0.5)

    def test_text_without_marks_is_one_turn(self, tmp_path: Path) -> None:
        dump = {"input": "What is 1+1?", "output": "2", "score": 1.0, "extra": "kept", "odd": [1]}
        ((episode,), report) = read(lines(tmp_path / "1.jsonl", dump))
        assert (episode.turns[0].observation.text, episode.turns[0].response) == ("What is 1+1?", "2")
        assert episode.info["extra"] == "kept"
        assert report.changed == {"field 'odd'": 1}

    def test_an_accuracy_below_one_is_not_solved(self, tmp_path: Path) -> None:
        dump = {"input": "a", "output": "b", "score": 1.0, "gts": "5"}
        found, report = read(
            lines(tmp_path / "1.jsonl", *({**dump, "acc": acc} for acc in (0.3, 1.0, 1, False)))
        )
        assert [e.success for e in found] == [False, True, True, False]
        assert found[0].task.data == {"gts": "5"}
        assert not report.changed

    def test_equal_prompts_are_one_task(self, tmp_path: Path) -> None:
        dump = {"input": "a", "output": "b", "score": 0}
        found, _ = read(lines(tmp_path / "1.jsonl", dump, {**dump, "output": "c"}, {**dump, "input": "z"}))
        assert found[0].task.id == found[1].task.id != found[2].task.id


def test_verifiers_results_of_both_kinds(tmp_path: Path) -> None:
    base = {
        "reward": 0.0,
        "task": "wordle",
        "example_id": 4,
        "answer": "crane",
        "info": {},
        "stop_condition": "max_turns",
    }
    talk = [{"role": "assistant", "content": "slate"}, {"role": "user", "content": "no"},
            {"role": "assistant", "content": "crane"}]  # fmt: skip
    path = lines(
        tmp_path / "results.jsonl",
        {**base, "prompt": [{"role": "user", "content": "guess"}], "completion": talk},
        {**base, "prompt": "guess", "completion": json.dumps(talk)},
    )
    (first, second), report = read(path)
    assert not report.dropped
    for episode in (first, second):
        assert [t.action for t in episode.turns] == ["slate", "crane"]
        assert (episode.task.id, episode.task.type, episode.stop) == (
            "example-4", "wordle", StopReason.MAX_TURNS,
        )  # fmt: skip
        assert episode.task.data == {"answer": "crane"}


def test_atif_of_another_agent(tmp_path: Path) -> None:
    trajectory = {
        "schema_version": "ATIF-v1.4",
        "session_id": "s-1",
        "agent": {"name": "someone", "version": "2", "model_name": "m"},
        "notes": "by hand",
        "final_metrics": {"total_cost_usd": 0.5},
        "extra": {"resolved": 1, "mood": "good"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Fix the bug"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "reasoning_content": "look",
                "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"cmd": "ls"}}],
                "observation": {"results": [{"source_call_id": "a", "content": "x.py"}]},
            },
            {"step_id": 3, "source": "agent", "message": "done"},
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps(trajectory, indent=2))
    ((episode,), report) = read(tmp_path / "t.json")
    assert report.changed == {"field 'notes'": 1}
    assert episode.info["final_metrics"] == {"total_cost_usd": 0.5}
    assert episode.info["extra"] == {"mood": "good"}
    assert episode.id == "s-1"
    assert episode.turns[0].action == 'bash({"cmd": "ls"})'
    assert episode.turns[1].observation.text == "x.py"
    assert episode.info["agent"]["name"] == "someone"
    assert episode.success
    del trajectory["extra"]
    (tmp_path / "t.json").write_text(json.dumps(trajectory))
    ((episode,), _) = read(tmp_path / "t.json")
    assert episode.success is None
    assert not episode.stop.has_outcome


def test_hostile_input_is_counted(tmp_path: Path) -> None:
    deep = '{"messages": ' + "[" * 100_000
    path = lines(
        tmp_path / "x.jsonl", {"messages": [{"role": "assistant", "content": "a"}]}, deep, "\x00\xff"
    )
    found, report = read(path)
    assert len(found) == 1
    assert report.dropped == {"not JSON": 2}
    (tmp_path / "x.eval").write_bytes(b"no zip")
    with pytest.raises(RecordError, match="no Inspect log"):
        read(tmp_path / "x.eval")


def test_unknown_formats_are_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"of no known format: its first record has a, b"):
        detect_format(lines(tmp_path / "x.jsonl", {"a": 1, "b": 2}))
    with pytest.raises(RecordError, match="no format is called 'vrl'"):
        read(tmp_path / "x.jsonl", name="vrl")
    with pytest.raises(RecordError, match="read and not written"):
        write_foreign([], tmp_path / "y.jsonl", ExchangeReport(), name="verl")
    with pytest.raises(RecordError, match="exists already"):
        write_foreign([], tmp_path / "x.jsonl", ExchangeReport(), name="chat")


def test_targets_are_converted_only_where_they_must_be(tmp_path: Path) -> None:
    native = tmp_path / "n.jsonl"
    with EpisodeWriter(native) as writer:
        for episode in games():
            writer.write(episode)
    with native_target(native, ExchangeReport()) as path:
        assert path == native
    write_foreign(games(), tmp_path / "mixed" / "c.jsonl", ExchangeReport(), name="chat")
    write_foreign(games(), tmp_path / "mixed" / "i.eval", ExchangeReport(), name="inspect")
    lines(tmp_path / "mixed" / "odd.jsonl", {"what": 1})
    report = ExchangeReport()
    with native_target(tmp_path / "mixed", report) as path:
        assert sum(len(read_episodes(p)) for p in path.glob("*.jsonl")) == 4
    assert not path.exists()
    assert report.notes()
    (tmp_path / "run" / "eval").mkdir(parents=True)
    with native_target(tmp_path / "run", ExchangeReport()) as path:
        assert path == tmp_path / "run"


def test_a_verl_dump_of_single_turns(tmp_path: Path) -> None:
    """The prompt has role marks and the reply has none."""
    path = tmp_path / "1.jsonl"
    prompt = "user\nWhere to?\nassistant\n"
    path.write_text(
        json.dumps({"input": prompt, "output": "go left", "gts": None, "score": 0.0, "step": 1}) + "\n"
    )
    report = ExchangeReport()
    (episode,) = read_foreign(path, report)
    assert not report.dropped
    assert [t.response for t in episode.turns] == ["go left"]
