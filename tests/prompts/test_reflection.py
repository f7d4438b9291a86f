from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.prompts import (
    REMARK_LIMIT,
    ChatRenderer,
    Prompter,
    PromptSettings,
    ReflectionReply,
    parse_reflection,
    reflection_messages,
    reflection_reply,
)
from turnpoint.records import Attempt, Episode, Observation, StopReason, Task, Turn
from turnpoint.testing.scripted_policy import EOS, CharTokenizer

TASK = Task("t-1", "toy", instruction="Cool some egg.")
GOOD = "<pivot>2</pivot><remark>Open it first.</remark>"


@pytest.mark.parametrize(
    ("text", "pivot", "remark"),
    [
        (GOOD, 2, "Open it first."),
        ("Well. <PIVOT> 0 </Pivot>\n\n<remark>\n a\nb \n</remark> done", 0, "a\nb"),
        ("<pivot>1</pivot><pivot>3</pivot><remark>a</remark><remark>b</remark>", 3, "b"),
        ("<remark>b</remark><pivot>4</pivot>", 4, "b"),
        ("<pivot>03</pivot><remark>b</remark>", 3, "b"),
        ("<think><pivot>1</pivot></think><pivot>2</pivot><remark>b</remark>", 2, "b"),
        ("<pivot><pivot>2</pivot><remark>b</remark>", 2, "b"),
        ("<pivot>2</pivot><pivot>1<remark>b</remark>", 2, "b"),
    ],
)
def test_what_can_be_read(text: str, pivot: int, remark: str) -> None:
    assert parse_reflection(text, 5) == ReflectionReply(pivot, remark, True)


@pytest.mark.parametrize(
    "named",
    ["", "five", "5", "-1", "+1", "1.0", "1 2", "0x1", "²", "３", "turn 2", "1e0", "9" * 30, "<b>2</b>"],
)
def test_a_pivot_that_is_no_turn_is_invalid(named: str) -> None:
    reply = parse_reflection(f"<pivot>{named}</pivot><remark>Try.</remark>", 5)
    assert reply == ReflectionReply(None, "Try.", False)


def test_the_last_pivot_wins_even_if_it_is_bad() -> None:
    assert parse_reflection(f"{GOOD}<pivot>seven</pivot>", 5).pivot is None


@pytest.mark.parametrize(
    "text", ["", "2", "<pivot>2", "pivot: 2 remark: x", "</pivot>2<pivot>", "<think>" + GOOD]
)
def test_without_tags_nothing_is_read(text: str) -> None:
    assert parse_reflection(text, 5) == ReflectionReply(None, "", False)


@pytest.mark.parametrize("rest", ["", "<remark></remark>", "<remark> \n </remark>", "<remark>cut off"])
def test_a_missing_remark_keeps_the_pivot_but_is_invalid(rest: str) -> None:
    assert parse_reflection(f"<pivot>2</pivot>{rest}", 5) == ReflectionReply(2, "", False)


def test_nothing_is_read_from_a_truncated_reflection() -> None:
    assert parse_reflection(GOOD, 5, truncated=True) == ReflectionReply()


def test_without_a_pivot_asked_a_remark_is_enough() -> None:
    assert parse_reflection("<remark>Go.</remark>", 5, pivot=False) == ReflectionReply(None, "Go.", True)
    assert parse_reflection(GOOD, 5, pivot=False).pivot is None
    assert not parse_reflection("<pivot>2</pivot>", 5, pivot=False).valid


def test_remarks_are_cut_at_their_limit() -> None:
    reply = parse_reflection(f"<pivot>0</pivot><remark>{'x' * 5000}</remark>", 1)
    assert reply.remark == "x" * REMARK_LIMIT
    assert reply.valid


PIECES = [
    "<pivot>",
    "</pivot>",
    "<remark>",
    "</remark>",
    "<think>",
    "</think>",
    "<PIVOT>",
    "1",
    "07",
    "-",
    " ",
    "x\n",
]


@given(
    text=st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join),
    turns=st.integers(0, 12),
    pivot=st.booleans(),
)
def test_no_text_breaks_the_reader(text: str, turns: int, pivot: bool) -> None:
    reply = parse_reflection(text, turns, pivot=pivot)
    assert reply.pivot is None or (pivot and 0 <= reply.pivot < turns)
    assert len(reply.remark) <= REMARK_LIMIT
    assert reply.remark == reply.remark.strip()
    assert reply.valid == (bool(reply.remark) and (reply.pivot is not None or not pivot))
    assert not parse_reflection(text, turns, truncated=True, pivot=pivot).valid


@given(
    turn=st.integers(0, 40),
    remark=st.text(st.characters(exclude_characters="<>", exclude_categories=("Cs",)), max_size=300).filter(
        str.strip
    ),
    before=st.text(st.characters(exclude_characters="<>"), max_size=30),
)
def test_a_reply_is_read_back(turn: int, remark: str, before: str) -> None:
    reply = parse_reflection(before + reflection_reply(turn, remark), turn + 1)
    assert reply == ReflectionReply(turn, remark.strip(), True)
    assert parse_reflection(reflection_reply(None, remark), 0, pivot=False).remark == remark.strip()


@pytest.mark.parametrize(
    "piece", ["<pivot>", "<pivot></pivot>", "<remark><pivot>1</pivot>", "<think>", "</think><"]
)
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    began = time.process_time()
    parse_reflection(piece * 60_000, 5)
    assert time.process_time() - began < 2.0


def observation(number: int) -> Observation:
    return Observation(f"You see thing {number}.", ("look", f"take thing {number}"))


def encode(text: str) -> tuple[int, ...]:
    return (*CharTokenizer().encode(text), EOS)


def failed(build: Prompter, turns: int, remarks: tuple[str, ...] = ()) -> Episode:
    """An attempt as rollouts record it; turn 1 gave no action."""
    episode = Episode("e", TASK, stop=StopReason.MAX_TURNS, success=False, attempt=Attempt(0, remarks))
    renderer = ChatRenderer(CharTokenizer())
    for index in range(turns):
        messages = build.messages(TASK, episode.turns, observation(index), remarks=remarks)
        action = None if index == 1 else f"take thing {index}"
        reply = "hm" if action is None else build.reply(action)
        episode.turns.append(
            Turn(index, observation(index), messages, renderer.prompt_ids(messages), encode(reply),
                 response=reply, action=action, executed=action or "")
        )  # fmt: skip
    episode.final_observation = observation(turns)
    return episode


def prompter(**settings: object) -> Prompter:
    return Prompter(PromptSettings.model_validate(settings), "Rules of the house.")


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("remarks", [(), ("Mind the door.",)])
@pytest.mark.parametrize("pivot", [False, True])
def test_in_a_conversation_the_question_extends_the_attempt(compact, remarks, pivot) -> None:
    build = prompter(compact=compact)
    episode = failed(build, 3, remarks)
    messages = reflection_messages(build, episode, pivot=pivot)
    last = episode.turns[-1]
    prompt = ChatRenderer(CharTokenizer()).prompt_ids(messages)
    assert ChatRenderer.extends(last.prompt_ids + last.response_ids, prompt)
    assert messages[:-2] == last.messages
    assert messages[-1].role == "user"
    for expected in ("thing 3", "0: take thing 0", "2: take thing 2"):
        assert expected in messages[-1].content
    assert "1: none" in messages[-1].content or "1: (no action" in messages[-1].content


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("pivot", [False, True])
def test_with_a_window_the_question_stands_alone(compact, pivot) -> None:
    build = prompter(compact=compact, history=1, system="Be brief.")
    system, message = reflection_messages(build, failed(build, 4, ("Mind the door.",)), pivot=pivot)
    assert (system.role, system.content) == ("system", "Be brief.")
    for expected in ("Cool some egg.", "Mind the door.", *(f"thing {n}." for n in range(5)), "take thing 3"):
        assert expected in message.content
    assert ("Rules of the house." in message.content) != compact


@pytest.mark.parametrize("history", ["chat", 2])
def test_the_pivot_is_asked_for_only_where_it_counts(history) -> None:
    build = prompter(history=history, reasoning=True)
    with_pivot = reflection_messages(build, failed(build, 3))[-1].content
    without = reflection_messages(build, failed(build, 3), pivot=False)[-1].content
    assert "<pivot>" in with_pivot
    assert "0 to 2" in with_pivot
    assert "pivot" not in without
    assert "2,000" in with_pivot
    assert "<remark>" in with_pivot
    assert "<remark>" in without
    assert "<think>" in with_pivot
    compact = prompter(history=history, compact=True)
    ends = [
        reflection_messages(compact, failed(compact, 3), pivot=p)[-1].content.split()[-1]
        for p in (True, False)
    ]
    assert ends == ["Reflect:", "Remark:"]


@pytest.mark.parametrize("history", ["chat", 2])
def test_the_compact_wording_has_a_closed_vocabulary(history) -> None:
    import re

    def words(texts) -> set[str]:
        return set(re.findall(r"</?\w+>|\w+|[^\w\s]", " ".join(texts)))

    build = prompter(compact=True, history=history)
    shown = [TASK.instruction, "You see thing . look take"]
    known = words([*build.vocabulary_texts(), *shown])
    episode = failed(build, 51, ("look",))
    asked = [*reflection_messages(build, episode), *reflection_messages(build, episode, pivot=False)]
    answer = reflection_reply(50, "take thing")
    assert words([*(m.content.replace("hm", "") for m in asked), answer]) - known <= {"51"}


def test_a_standalone_question_is_the_window_form() -> None:
    chat, window = prompter(), prompter(history=1)
    episode = failed(chat, 3)
    assert reflection_messages(chat, episode, standalone=True) == reflection_messages(window, episode)


def test_an_attempt_without_turns_has_nothing_to_reflect_on() -> None:
    with pytest.raises(ValueError, match="no turn to reflect on"):
        reflection_messages(prompter(), failed(prompter(), 0))
