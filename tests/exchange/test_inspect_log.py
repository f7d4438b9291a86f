from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnpoint.exchange import ExchangeReport, read_foreign, write_foreign
from turnpoint.records import Episode, Fork, StopReason
from turnpoint.testing import play_oracle, toy_suite


def sample(**fields: Any) -> dict[str, Any]:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "look"}]
    return {"id": 1, "epoch": 1, "input": "hi", "target": "", "messages": talk, **fields}


def read(tmp_path: Path, *samples: dict[str, Any]) -> tuple[list[Episode], ExchangeReport]:
    path, report = tmp_path / "log.json", ExchangeReport()
    head = {"version": 2, "status": "success", "eval": {"task": "ctf"}}
    path.write_text(json.dumps({**head, "samples": list(samples)}))
    return list(read_foreign(path, report)), report


def games(count: int) -> list[Episode]:
    suite = toy_suite(rooms=3)
    found = [play_oracle(suite.make(), suite.tasks("train")[n % 2]) for n in range(count)]
    for number, episode in enumerate(found):
        episode.id = f"game-{number}"
    return found


def test_a_fork_is_a_branch_event(tmp_path: Path) -> None:
    parent, branch = games(2)
    branch.forked_from = Fork(parent.id, 2)
    write_foreign([parent, branch], tmp_path / "log.json", ExchangeReport(), name="inspect")
    samples = json.loads((tmp_path / "log.json").read_text())["samples"]
    assert samples[0]["events"] == []
    (event,) = (e for e in samples[1]["events"] if e["event"] == "branch")
    assert (event["from_anchor"], event["metadata"]) == ("game-0#2", {"episode": "game-0", "turn": 2})
    del samples[1]["metadata"]["turnpoint"]["rest"]
    (_, back), report = read(tmp_path, *samples)
    assert back.forked_from == Fork("game-0", 2)
    assert report.notes() == []


def test_events_of_others_are_counted(tmp_path: Path) -> None:
    events = [{"event": "span_begin", "id": "a"}, {"event": "branch", "from_anchor": "x"}, {"event": "model"},
              {"event": "model"}, {"event": "branch", "metadata": {"episode": 3, "turn": "x"}}, 5]  # fmt: skip
    (episode,), report = read(tmp_path, sample(events=events))
    assert episode.forked_from is None
    assert report.changed == {
        "event of kind 'branch'": 2,
        "event of kind 'model'": 2,
        "event of kind 'None'": 1,
    }


def test_no_outcome_is_no_answer_and_not_in_the_accuracy(tmp_path: Path) -> None:
    solved, cut, failed = games(3)
    cut.stop, cut.success = StopReason.OUT_OF_SUPPORT, None
    failed.stop, failed.success = StopReason.FAILURE, False
    cut.error = "boom"
    write_foreign([solved, cut, failed], tmp_path / "log.json", ExchangeReport(), name="inspect")
    log = json.loads((tmp_path / "log.json").read_text())
    assert [s["scores"]["success"]["value"] for s in log["samples"]] == ["C", "N", "I"]
    assert log["samples"][1]["error"]["message"] == "boom"
    (score,) = log["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == 0.5
    assert (score["scored_samples"], score["unscored_samples"]) == (2, 1)
    assert (log["results"]["total_samples"], log["results"]["completed_samples"]) == (3, 2)


def test_samples_come_back_in_order(tmp_path: Path) -> None:
    write_foreign(games(11), tmp_path / "log.eval", ExchangeReport(), name="inspect")
    found = read_foreign(tmp_path / "log.eval", ExchangeReport())
    assert [e.id for e in found] == [f"game-{n}" for n in range(11)]


def test_scores_that_are_not_the_outcome_are_kept(tmp_path: Path) -> None:
    score = {"a": {"value": {"f1": 0.5}, "explanation": "because"}, "b": {"value": "P"}, "c": {"value": 3}}
    (first, second, third), report = read(
        tmp_path,
        sample(scores=score),
        sample(scores={"a": {"value": "C"}}, id=2),
        sample(scores={"a": {"value": "yes"}}, id=3),
    )
    assert (first.total_reward, first.success) == (0.5, False)
    assert first.info["scores"] == {"a": {"f1": 0.5}, "b": "P", "c": 3}
    assert (second.success, "scores" in second.info) == (True, False)
    assert (third.success, third.info["scores"]) == (None, {"a": "yes"})
    assert report.changed == {"explanation of a score": 1}


def test_attachments_wherever_they_stand(tmp_path: Path) -> None:
    part = {"type": "text", "text": "attachment://one"}
    call = {"function": "bash", "arguments": {"cmd": "attachment://two"}}
    talk = [{"role": "user", "content": [part]},
            {"role": "assistant", "content": "attachment://none", "tool_calls": [call]}]  # fmt: skip
    (episode,), report = read(tmp_path, sample(messages=talk, attachments={"one": "a map", "two": "ls -R"}))
    assert episode.turns[0].observation.text == "a map"
    assert episode.turns[0].action == 'bash({"cmd": "ls -R"})'
    assert report.changed == {"text of an attachment that is missing": 1}


def test_the_rest_of_a_sample(tmp_path: Path) -> None:
    (episode, limited), report = read(
        tmp_path,
        sample(target="flag", metadata={"level": 2}, store={"a": 1}, total_time=2.5, model_usage={}),
        sample(id=2, limit={"type": "context", "limit": 9}, scores={"a": {"value": 0}}),
    )
    assert (episode.task.data, episode.seconds) == ({"target": "flag", "metadata": {"level": 2}}, 2.5)
    assert limited.stop == StopReason.CONTEXT_LIMIT
    assert report.changed == {"field 'store'": 1}
