"""Files of other libraries, written and read by these libraries themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from turnpoint.exchange import ExchangeReport, as_native, read_foreign, write_foreign
from turnpoint.inspector.compare_page import write_pngs
from turnpoint.inspector.comparison import read_runs
from turnpoint.records import (
    Episode,
    EpisodeKind,
    Fork,
    RecordError,
    StopReason,
    episode_to_dict,
    read_episodes,
)
from turnpoint.testing import play_actions, play_oracle, toy_suite
from turnpoint.training.metrics import MetricsLog

pytestmark = pytest.mark.exchange


def games(count: int = 6) -> list[Episode]:
    suite = toy_suite(rooms=3)
    return [
        play_oracle(suite.make(), task)
        if number % 2
        else play_actions(suite.make(), task, ["wait", "switch on lamp"], snapshots=False)
        for number, task in enumerate(suite.tasks("train")[:count])
    ]


def test_parquet_keeps_everything(tmp_path: Path) -> None:
    before, report = games(), ExchangeReport()
    write_foreign(before, tmp_path / "e.parquet", report, name="parquet")
    assert report.episodes == 6
    after = list(read_foreign(tmp_path / "e.parquet", ExchangeReport()))
    assert [episode_to_dict(e) for e in after] == [episode_to_dict(e) for e in before]
    table = pyarrow.parquet.read_table(tmp_path / "e.parquet")
    assert table.column("success").to_pylist() == [bool(e.success) for e in before]
    assert table.column("messages")[1].as_py()[-2]["role"] == "assistant"


def test_parquet_keeps_the_ids_of_several_evaluations(tmp_path: Path) -> None:
    before = [*games(2), *games(2)]
    write_foreign(before, tmp_path / "e.parquet", ExchangeReport(), name="parquet")
    report = ExchangeReport()
    assert [e.id for e in read_foreign(tmp_path / "e.parquet", report)] == [e.id for e in before]
    assert report.notes() == []


def test_parquet_counts_what_it_cannot_hold_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    bad, good = games(2)
    bad.turns[0].response = "half \ud83d"
    with pytest.raises(RecordError, match="surrogates not allowed"):
        write_foreign([bad], tmp_path / "e.parquet", ExchangeReport(), name="parquet")
    assert list(tmp_path.iterdir()) == []
    report = ExchangeReport()
    write_foreign([bad, good], tmp_path / "e.parquet", report, name="parquet")
    assert (report.episodes, dict(report.dropped)) == (1, {"surrogates not allowed": 1})


def test_times_and_bytes_in_parquet_become_text(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    call = {"function": {"name": "wait", "arguments": {"until": at}}}
    talk = [{"role": "user", "content": "hi", "tool_calls": []},
            {"role": "assistant", "content": "", "tool_calls": [call]}]  # fmt: skip
    rows = [{"messages": talk, "reward": 1.0, "metadata": {"at": at, "raw": b"x"}, "info": {"n": 1}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "m.parquet")
    report = ExchangeReport()
    (episode,) = read_episodes(as_native(tmp_path / "m.parquet", tmp_path / "n.jsonl", report))
    assert episode.info == {"source": "parquet", "at": str(at), "raw": "b'x'", "n": 1}
    assert str(at) in (episode.turns[0].action or "")
    assert report.notes() == []


def test_parquet_of_others_needs_messages(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "look"}]
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([{"messages": talk, "reward": 1.0}, {"messages": None, "reward": 0.0}]),
        tmp_path / "m.parquet",
    )
    report = ExchangeReport()
    (episode,) = read_foreign(tmp_path / "m.parquet", report)
    assert episode.turns[0].action == "look"
    assert episode.success
    assert report.dropped == {"no list of messages": 1}
    rows = [{"messages": talk, "success": False, "step": 3, "stop_reason": "max_turns", "mood": "good"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "m.parquet")
    report = ExchangeReport()
    (episode,) = read_foreign(tmp_path / "m.parquet", report)
    assert (episode.step, episode.stop, episode.success) == (3, StopReason.MAX_TURNS, False)
    assert report.changed == {"field 'mood'": 1}
    pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(RecordError, match="neither an 'episode' nor a 'messages' column"):
        list(read_foreign(tmp_path / "x.parquet", ExchangeReport()))
    (tmp_path / "no.parquet").write_bytes(b"none")
    with pytest.raises(RecordError, match="no Parquet file"):
        list(read_foreign(tmp_path / "no.parquet", ExchangeReport()))


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_inspect_reads_what_we_write_and_we_read_what_it_writes(name: str, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    before = games()
    write_foreign(before, tmp_path / name, ExchangeReport(), name="inspect")
    log = read_eval_log(str(tmp_path / name))
    assert log.status == "success"
    assert len(log.samples) == 6
    assert [s.scores["success"].value for s in log.samples] == ["C" if e.success else "I" for e in before]
    again = tmp_path / f"again-{name}"
    write_eval_log(log, str(again))
    report = ExchangeReport()
    after = {episode.id: episode for episode in read_foreign(again, report)}
    assert not report.dropped
    for episode in before:
        back = after[episode.id]
        assert [t.response for t in back.turns] == [t.response for t in episode.turns]
        assert (back.success, back.task.id) == (episode.success, episode.task.id)


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_inspect_shows_branches_and_what_has_no_outcome(name: str, tmp_path: Path) -> None:
    from inspect_ai.event import BranchEvent, timeline_build
    from inspect_ai.log import read_eval_log, write_eval_log

    before = games(3)
    before[0].stop, before[0].success, before[0].error = StopReason.ENV_ERROR, None, "no lamp"
    before[2].stop, before[2].success = StopReason.BRANCH_END, None
    before[2].forked_from, before[2].kind = Fork(before[1].id, 1), EpisodeKind.RECOVERY
    for turn in before[2].turns:
        turn.index, turn.hint, turn.reward = turn.index + 1, "look", 0.25
    write_foreign(before, tmp_path / name, ExchangeReport(), name="inspect")
    log = read_eval_log(str(tmp_path / name))
    assert [s.scores["success"].value for s in log.samples] == ["N", "C", "N"]
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert (log.results.scores[0].scored_samples, log.results.completed_samples) == (1, 2)
    assert log.samples[0].error.message == "no lamp"
    (event,) = (e for e in log.samples[2].events if isinstance(e, BranchEvent))
    assert event.metadata == {"episode": before[1].id, "turn": 1}
    (branch,) = timeline_build(log.samples[2].events).root.branches
    assert branch.branched_from == event.from_anchor == f"{before[1].id}#1"
    again, report = tmp_path / f"again-{name}", ExchangeReport()
    write_eval_log(log, str(again))
    after = list(read_foreign(again, report))
    assert [episode_to_dict(e) for e in after] == [episode_to_dict(e) for e in before]
    assert report.notes() == []


def test_atif_is_valid_and_keeps_tokens(tmp_path: Path) -> None:
    from atif import Trajectory

    before = games()
    before[0].turns[0].response_ids, before[0].turns[0].prompt_ids = (5, 6), (1, 2, 3)
    before[0].turns[0].logprobs = (-0.5, -0.25)
    before[1].turns[0].reused = True
    write_foreign(before, tmp_path / "e.jsonl", ExchangeReport(), name="atif")
    lines = (tmp_path / "e.jsonl").read_text().splitlines()
    found = [Trajectory.model_validate_json(line) for line in lines]
    assert [t.session_id for t in found] == [e.id for e in before]
    told = [step for step in found[0].steps if step.source == "agent"]
    assert told[0].metrics is not None
    assert told[0].metrics.completion_token_ids == [5, 6]
    assert told[0].metrics.logprobs == [-0.5, -0.25]
    again = tmp_path / "again.jsonl"
    again.write_text("\n".join(t.model_dump_json(exclude_none=True) for t in found))
    report = ExchangeReport()
    after = list(read_foreign(again, report))
    assert not report.dropped
    assert not report.changed
    for old, new in zip(before, after, strict=True):
        assert [t.response for t in new.turns] == [t.response for t in old.turns]
        assert [t.reused for t in new.turns] == [t.reused for t in old.turns]
        assert [t.response_ids for t in new.turns] == [t.response_ids for t in old.turns]
        assert (new.id, new.success, new.stop) == (old.id, old.success, old.stop)


def test_atif_of_others_with_tools_and_a_subagent(tmp_path: Path) -> None:
    from atif import Agent, FinalMetrics, Observation, ObservationResult, Step, ToolCall, Trajectory

    call = ToolCall(tool_call_id="c1", function_name="open", arguments={"path": "a.py"})
    seen = Observation(results=[ObservationResult(source_call_id="c1", content="print(1)")])
    trajectory = Trajectory(
        schema_version="ATIF-v1.8",
        session_id="s",
        agent=Agent(name="coder", version="2", model_name="m"),
        steps=[
            Step(step_id=1, source="system", message="You repair."),
            Step(step_id=2, source="user", message="Repair it."),
            Step(
                step_id=3,
                source="agent",
                message="",
                reasoning_content="look first",
                tool_calls=[call],
                observation=seen,
            ),
            Step(step_id=4, source="agent", message="done", is_copied_context=True),
        ],
        final_metrics=FinalMetrics(total_steps=4, extra={"reward": 1.0}),
    )  # fmt: skip
    path = tmp_path / "trajectory.json"
    path.write_text(trajectory.model_dump_json(exclude_none=True))
    report = ExchangeReport()
    (episode,) = read_foreign(path, report)
    assert not report.dropped
    assert episode.turns[0].action == 'open({"path": "a.py"})'
    assert "look first" in episode.turns[0].response
    assert episode.turns[1].observation.text == "print(1)"
    assert [t.reused for t in episode.turns] == [False, True]
    assert episode.success
    assert episode.task.instruction == "Repair it."


def test_curves_as_png(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "run" / "metrics.jsonl")
    for step in (0, 2):
        log.write(step, "eval", {"success": {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 4}})
    log.close()
    (written,) = write_pngs(read_runs([tmp_path / "run"]), tmp_path / "png")
    assert written.read_bytes().startswith(b"\x89PNG")
    assert written.stat().st_size > 5_000
