from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.records import (
    Attempt,
    Episode,
    EpisodeKind,
    EpisodeReader,
    EpisodeWriter,
    Fork,
    Message,
    Observation,
    Pivot,
    RecordError,
    Reflection,
    StopReason,
    Task,
    Turn,
    episode_from_dict,
    episode_to_dict,
    read_episodes,
)

text = st.text(max_size=20)
ids = st.lists(st.integers(0, 100_000), max_size=6).map(tuple)


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    made: list[Turn] = []
    tokens: tuple[int, ...] = ()
    messages: tuple[Message, ...] = ()
    first = draw(st.sampled_from([0, 0, 1, 4]))
    for index in range(first, first + draw(st.integers(0, 4))):
        grows = draw(st.booleans())
        tokens = (tokens if grows else ()) + draw(ids)
        messages = (messages if grows else ()) + (Message("user", draw(text)),)
        response = draw(ids)
        made.append(
            Turn(
                index=index,
                observation=Observation(
                    draw(text), draw(st.none() | st.lists(text).map(tuple)), draw(st.none() | text)
                ),
                messages=messages,
                prompt_ids=tokens,
                response_ids=response,
                logprobs=tuple(-float(i) / 7 for i in range(len(response))),
                response=draw(text),
                truncated=draw(st.booleans()),
                action=draw(st.none() | text),
                executed=draw(text),
                effective=draw(st.booleans()),
                reward=draw(st.floats(-10, 10)),
                done=draw(st.booleans()),
                hint=draw(st.none() | text.filter(bool)),
                reused=draw(st.booleans()),
                distance=draw(st.none() | st.integers(0, 9)),
                gold_actions=draw(st.lists(text, max_size=2).map(tuple)),
                scores={"advantage": (0.5,) * len(response)} if response else {},
            )
        )
        tokens += response
        messages += (Message("assistant", "x", response),)
    return made


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    return Episode(
        id=draw(text.filter(bool)),
        task=Task("t", "toy", draw(text), draw(text), draw(text), draw(st.integers(0, 9)), {"a": [1, "b"]}),
        turns=draw(turns()),
        stop=draw(st.sampled_from(StopReason)),
        success=draw(st.none() | st.booleans()),
        score=draw(st.sampled_from([None, 0.0, 0.25])),
        kind=draw(st.sampled_from(EpisodeKind)),
        forked_from=draw(st.none() | st.just(Fork("p", 3))),
        attempt=draw(st.sampled_from([Attempt(), Attempt(2, ("look",), "c")])),
        final_observation=draw(st.none() | st.just(Observation("end", ("a",), "k"))),
        pivots=[Pivot(1, "oracle", "go", "go left", 0.25, "why")],
        reflection=draw(
            st.sampled_from(
                [
                    None,
                    Reflection(),
                    Reflection(
                        (Message("user", "why?"),), (1,), (2, 3), (-1.0, -2.0), "r", True, 0, "look", True
                    ),
                ]
            )
        ),
        lesson=draw(st.none() | text.filter(bool)),
        error=draw(text),
        info={"noise": [1, 2]},
    )


@given(episodes())
def test_round_trip(episode: Episode) -> None:
    line = json.dumps(episode_to_dict(episode))
    assert episode_from_dict(json.loads(line)) == episode


def test_turns_of_a_branch_keep_their_places() -> None:
    branch = Episode(
        "b",
        Task("t", "toy"),
        [Turn(4, Observation("o")), Turn(5, Observation("p"))],
        forked_from=Fork("a", 4),
    )
    assert [turn.index for turn in episode_from_dict(episode_to_dict(branch)).turns] == [4, 5]
    assert "first_turn" not in episode_to_dict(simple("whole"))


def simple(name: str) -> Episode:
    return Episode(
        name, Task("t", "toy"), [Turn(0, Observation("o"), response_ids=(1, 2), logprobs=(-1.0, -2.0))]
    )


def test_history_is_stored_once() -> None:
    def size(turn_count: int) -> int:
        episode, tokens = simple("e"), ()
        episode.turns = []
        for index in range(turn_count):
            tokens += tuple(range(1000, 1050))
            episode.turns.append(
                Turn(index, Observation("o"), prompt_ids=tokens, response_ids=(7,), logprobs=(-0.1,))
            )
            tokens += (7,)
        return len(json.dumps(episode_to_dict(episode)))

    assert size(40) < 4.5 * size(10)


def test_torn_last_line_is_reported_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EpisodeWriter(path) as writer:
        writer.write(simple("a"))
        writer.write(simple("b"))
    path.write_bytes(path.read_bytes()[:-30])
    reader = EpisodeReader(path)
    assert [e.id for e in reader] == ["a"]
    assert reader.report.episodes == 1
    assert "unfinished last line" in reader.report.problems[0]
    assert f"{path}:2" in reader.report.problems[0]


def test_a_last_line_that_is_whole_is_not_called_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    for line, reason in (
        ('{"messages": []}', "no episode record"),
        ('{"version": 9, "id": "a"}', "version 9"),
    ):
        path.write_text(line)  # without a newline
        with pytest.raises(RecordError, match=reason):
            read_episodes(path)
        reader = EpisodeReader(path, strict=False)
        assert list(reader) == []
        (problem,) = reader.report.problems
        assert reason in problem
        assert "unfinished" not in problem


def test_appending_after_a_crash_keeps_every_whole_line_and_the_torn_bytes(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EpisodeWriter(path) as writer:
        writer.write(simple("a"))
    torn = b'{"version": 1, "id": "b", "tas'
    path.write_bytes(path.read_bytes() + torn)
    with EpisodeWriter(path) as writer:
        assert writer.repaired_bytes == len(torn)
        writer.write(simple("c"))
    assert [e.id for e in read_episodes(path)] == ["a", "c"]
    assert (tmp_path / "e.jsonl.torn").read_bytes() == torn + b"\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json}", "line 1"),
        ('{"version": 99, "id": "x"}', "version 99"),
        ('{"version": 1, "id": "x"}', "lacks 'task'"),
        ('{"version": 1, "id": "x", "task": {"id": "t", "env": "e"}, "stop": "bored"}', "bored"),
        (
            '{"version":1,"id":"x","task":{"id":"t","env":"e"},"turns":[{"observation":{"text":""},'
            '"response_ids":[1,2],"logprobs":[-1]}]}',
            "1 log-probs for 2",
        ),
        ("[1]", "has no version"),
        *(
            (json.dumps({"version": 1, "id": "x", "task": {"id": "t", "env": "e"}} | wrong), reason)
            for wrong, reason in [
                ({"task": {"id": "t", "env": "e", "type": ["a"]}}, "task.type is .*, of type list"),
                ({"final_distance": "3"}, "final_distance is '3', of type str"),
                ({"final_distance": True}, "final_distance is True"),
                ({"success": 1}, "success is 1, of type int"),
                ({"score": "high"}, "score is 'high', of type str"),
                ({"turns": [{"observation": {"text": ""}, "action": 5}]}, "turn 0: action is 5"),
                ({"turns": [{"observation": {"text": ["a"]}}]}, "observation.text is"),
                ({"turns": [{"observation": {"text": None}}]}, "lacks 'text'"),
                ({"turns": [{"observation": {"text": ""}, "scores": {"teacher": [None]}}]}, "teacher holds"),
                (
                    {"turns": [{"observation": {"text": ""}, "messages": {"new": [{"role": 1}]}}]},
                    "message.role",
                ),
                ({"pivots": [{"turn": "1", "source": "x"}]}, "pivot.turn is '1'"),
                ({"attempt": {"index": "1"}}, "attempt.index is '1'"),
            ]
        ),
    ],
)
def test_bad_lines_name_file_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(line + "\n" + json.dumps(episode_to_dict(simple("b"))) + "\n")
    with pytest.raises(RecordError, match=reason) as caught:
        read_episodes(path)
    assert f"{path}:1" in str(caught.value)
    reader = EpisodeReader(path, strict=False)
    assert [e.id for e in reader] == ["b"]
    assert len(reader.report.problems) == 1


def test_null_is_what_is_not_there() -> None:
    whole = simple("a")
    data = episode_to_dict(whole)
    for part in (data, data["task"], *data["turns"]):
        for name in (
            "type",
            "instruction",
            "seconds",
            "executed",
            "hint",
            "lesson",
            "scores",
            "pivots",
            "attempt",
        ):
            part.setdefault(name, None)
    assert episode_from_dict(data) == whole
