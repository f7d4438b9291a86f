"""Episodes come back whole from every format: nothing that a format has no field for is lost."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.exchange import ExchangeReport, read_foreign, write_foreign
from turnpoint.exchange.messages import conversation, episode_of
from turnpoint.exchange.own import remainder, restored
from turnpoint.records import (
    Attempt,
    Episode,
    EpisodeKind,
    Fork,
    Message,
    Observation,
    Pivot,
    Reflection,
    StopReason,
    Task,
    Turn,
    episode_to_dict,
)

FILES = [("chat", "a.jsonl"), ("verifiers", "a.jsonl"), ("atif", "a.json"), ("atif", "a.jsonl"),
         ("inspect", "a.eval"), ("inspect", "a.json")]  # fmt: skip


def episode(stop: StopReason, success: bool | None, *, name: str = "") -> Episode:
    """Three turns with rewards of their own, as a conversation."""
    turns: list[Turn] = []
    prompt: tuple[Message, ...] = (
        Message("system", "rules"),
        Message("user", "Find the key. You see a room."),
    )
    for index, (response, reward) in enumerate([("look", 0.5), ("", 0.0), ("<action>go</action>", 10.0)]):
        turns.append(
            Turn(
                index=index,
                observation=Observation("You see a room.", ("go", "look"), f"state-{index}"),
                messages=prompt,
                response=response,
                action="go" if index == 2 else None,
                executed="wait" if index == 1 else response,
                reward=reward,
            )
        )
        prompt = (*prompt, Message("assistant", response), Message("user", "You see a room."))
    return Episode(
        id=name or f"{stop.value}-{success}",
        task=Task("rooms/3", "rooms", "Find the key.", type="find", seed=7, data={"map": [1, 2], "answer": "key"}),
        turns=turns,
        stop=stop,
        success=success,
        final_observation=Observation("You are outside.", state_key="end"),
        step=4,
        seconds=1.25,
    )  # fmt: skip


def every_ending() -> list[Episode]:
    outcomes = {StopReason.SUCCESS: True, StopReason.FAILURE: False, StopReason.MAX_TURNS: False,
                StopReason.CONTEXT_LIMIT: False}  # fmt: skip
    return [episode(stop, outcomes.get(stop)) for stop in StopReason]


def rich() -> list[Episode]:
    """Episodes with all that no foreign format has a field for."""
    parent = episode(StopReason.FAILURE, False, name="parent")
    for turn in parent.turns:
        turn.prompt_ids, turn.response_ids, turn.logprobs = (1, 2, turn.index), (3, 4), (-0.5, -1.0)
        turn.scores, turn.gold_actions, turn.distance = {"teacher": (-1.0, -2.0)}, ("go",), 3 - turn.index
    parent.distances_known, parent.final_distance, parent.lesson = True, 2, "go at once"
    parent.pivots = [Pivot(1, "oracle", "go", "go", 0.5, "too late")]
    parent.reflection = Reflection(response="turn 2 was wrong", pivot=1, remark="go", valid=True)
    branch = episode(StopReason.BRANCH_END, None, name="branch")
    branch.kind, branch.forked_from = EpisodeKind.RECOVERY, Fork("parent", 2)
    for turn in branch.turns:
        turn.index, turn.hint = turn.index + 2, "go"
    retry = episode(StopReason.SUCCESS, True, name="retry")
    retry.attempt, retry.turns[0].reused = Attempt(1, ("go",), "chain"), True
    broken = episode(StopReason.ENV_ERROR, None, name="broken")
    broken.error, broken.final_observation = "Traceback: the lamp\nis broken", None
    windows = episode(StopReason.SUCCESS, True, name="windows")
    for turn in windows.turns:  # prompts of their own, not one conversation
        turn.messages = (Message("user", f"Only turn {turn.index}: you see a room."),)
    windows.info = {"source": "somewhere", "metrics": {"a": 0.5}}
    return [parent, branch, retry, broken, windows]


def round_trip(before: list[Episode], path: Path, name: str) -> tuple[list[Episode], ExchangeReport]:
    report, back = ExchangeReport(), ExchangeReport()
    write_foreign(before, path, report, name=name)
    assert (report.episodes, report.notes()) == (len(before), [])
    return list(read_foreign(path, back, name=name)), back


@pytest.mark.parametrize(("name", "file"), FILES)
@pytest.mark.parametrize("made", [every_ending, rich])
def test_nothing_is_lost(name: str, file: str, made: Callable[[], list[Episode]], tmp_path: Path) -> None:
    after, report = round_trip(made(), tmp_path / file, name)
    assert [episode_to_dict(e) for e in after] == [episode_to_dict(e) for e in made()]
    assert report.notes() == []


@given(
    st.lists(
        st.tuples(st.text(), st.text(), st.floats(-9, 9), st.none() | st.text()), min_size=1, max_size=4
    ),
    st.sampled_from(StopReason),
    st.none() | st.booleans(),
    st.dictionaries(st.text(), st.none() | st.integers() | st.text()),
    st.booleans(),
)
def test_any_episode_is_its_messages_and_the_remainder(
    said: list[Any], stop: StopReason, success: bool | None, info: dict[str, Any], late: bool
) -> None:
    turns = [
        Turn(i, Observation(seen), response=reply, action=action, executed=action or "wait", reward=reward)
        for i, (seen, reply, reward, action) in enumerate(said, start=2 if late else 0)
    ]
    made = Episode("e", Task("t", "x", type="k", data=info), turns, stop, success, info=info)
    shown = episode_of("e", conversation(made), ExchangeReport(), env="x", reward=made.total_reward)
    report = ExchangeReport()
    assert restored(shown, remainder(shown, made), report) == made
    assert report.notes() == []


def without_rest(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_rest(v) for k, v in value.items() if k != "rest"}
    return [without_rest(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "file"), FILES)
def test_endings_and_outcomes_are_in_the_formats_own_fields(name: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    write_foreign(every_ending(), path, ExchangeReport(), name=name)
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as old:
            members = {n: without_rest(json.loads(old.read(n))) for n in old.namelist()}
        with zipfile.ZipFile(path, "w") as new:
            for member, data in members.items():
                new.writestr(member, json.dumps(data))
    else:
        texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        assert '"rest"' in texts[0]
        path.write_text("\n".join(json.dumps(without_rest(json.loads(text))) for text in texts) + "\n")
    report = ExchangeReport()
    after = list(read_foreign(path, report, name=name))
    assert report.notes() == []
    assert [(e.id, e.stop, e.success) for e in after] == [(e.id, e.stop, e.success) for e in every_ending()]


def test_what_another_tool_changed_stays_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_foreign([episode(StopReason.FAILURE, False)], path, ExchangeReport(), name="chat")
    record = json.loads(path.read_text())
    record["task_type"], record["success"], record["stop_reason"] = "other", True, None
    path.write_text(json.dumps(record) + "\n")
    (back,) = read_foreign(path, ExchangeReport())
    assert (back.task.type, back.task.seed, back.stop) == ("other", 7, StopReason.SUCCESS)
    assert [turn.reward for turn in back.turns] == [0.5, 0.0, 10.0]


def test_tokens_of_another_text_are_not_kept(tmp_path: Path) -> None:
    path, report = tmp_path / "a.jsonl", ExchangeReport()
    parent, *_ = rich()
    write_foreign([parent], path, ExchangeReport(), name="chat")
    record = json.loads(path.read_text())
    record["messages"][2]["content"] = "<action>go</action>"
    path.write_text(json.dumps(record) + "\n")
    (back,) = read_foreign(path, report)
    assert (back.turns[0].action, back.lesson) == ("go", "go at once")
    assert not any(turn.response_ids for turn in back.turns)
    assert (back.distances_known, back.final_distance, back.pivots, back.reflection) == (
        False,
        None,
        [],
        None,
    )
    assert back.total_reward == 10.5
    assert report.changed == {"turnpoint's fields of turns whose texts were changed": 1}


def test_an_edited_or_cut_ending_is_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    parent, *_ = rich()
    write_foreign([parent], path, ExchangeReport(), name="chat")
    record = json.loads(path.read_text())
    for kept, last in ((7, "You are inside."), (3, None)):
        messages = record["messages"][:kept] + ([{"role": "user", "content": last}] if last else [])
        path.write_text(json.dumps(record | {"messages": messages}) + "\n")
        report = ExchangeReport()
        (back,) = read_foreign(path, report)
        assert back.final_observation == (Observation(last) if last else None)
        assert (len(back.turns), back.distances_known, back.pivots) == (3 if last else 1, False, [])
        assert report.changed == {"turnpoint's fields of turns whose texts were changed": 1}


def test_text_that_does_not_fit_is_counted() -> None:
    shown, whole = episode(StopReason.FAILURE, False), episode(StopReason.FAILURE, False)
    whole.turns[0].reward, whole.lesson = 3.0, "go"
    text, report = remainder(shown, whole), ExchangeReport()
    shown.turns.pop()
    back = restored(shown, text, report)
    assert (len(back.turns), back.turns[0].reward, back.lesson) == (2, 0.5, "go")
    for bad in ("{", "[]", "3", '{"turns": []}', '{"turns": [], "texts": 1, "task": 5}', 7):
        assert restored(shown, bad, report) is shown
    assert list(report.changed.values()) == [1, 6]
    assert restored(shown, None, report) is shown
