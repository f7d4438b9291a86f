"""Prompts of both history modes and both wordings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnpoint.prompts import Prompter, PromptSettings, assert_unhinted
from turnpoint.records import Message, Observation, Task, Turn

TASK = Task(id="t", env="household", instruction="cool some egg")
INSTRUCTIONS = "You are in a house."


def observation(number: int) -> Observation:
    return Observation(f"You see thing {number}.", ("look", f"take thing {number}"))


def played(count: int, sampled: bool = True) -> list[Turn]:
    return [
        Turn(
            index=number,
            observation=observation(number),
            response=f"<action>take thing {number}</action>" if sampled else "",
            response_ids=(number + 1, 99) if sampled else (),
            action=f"take thing {number}",
            executed=f"take thing {number}",
        )
        for number in range(count)
    ]


def prompter(**settings: object) -> Prompter:
    return Prompter(PromptSettings.model_validate(settings), INSTRUCTIONS)


def test_chat_has_one_message_per_turn_and_keeps_tokens() -> None:
    messages = prompter(system="Be brief.").messages(TASK, played(2), observation(2))
    assert [m.role for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [m.token_ids for m in messages] == [None, None, (1, 99), None, (2, 99), None]
    assert messages[1].content == (
        "You are in a house.\n\nYour task is to: cool some egg\nYou see thing 0.\nAdmissible actions:\nlook\n"
        "take thing 0\nIt is your turn: give one action inside <action> </action> tags."
    )
    assert INSTRUCTIONS not in messages[3].content


def test_chat_grows_at_its_end_only() -> None:
    build, turns = prompter(), played(3)
    for number in range(3):
        before = build.messages(TASK, turns[:number], observation(number))
        after = build.messages(TASK, turns[: number + 1], observation(number + 1))
        assert after[: len(before)] == before


def test_turns_without_sampled_tokens_have_text_only() -> None:
    messages = prompter().messages(TASK, played(1, sampled=False), observation(1))
    assert messages[1] == Message("assistant", "<action>take thing 0</action>")


@pytest.mark.parametrize(("window", "shown"), [(0, []), (2, [2, 3]), (9, [1, 2, 3])])
def test_window_shows_the_last_turns(window: int, shown: list[int]) -> None:
    (message,) = prompter(history=window).messages(TASK, played(3), observation(3))
    assert [int(n) for n in re.findall(r"Action (\d+): take", message.content)] == shown
    assert message.content.count("Admissible actions:") == 1
    assert "Current observation, turn 4:\nYou see thing 3." in message.content


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("history", ["chat", 0, 2])
@pytest.mark.parametrize("turns", [0, 3])
def test_hint_lesson_and_remarks_find_their_places(compact: bool, history: object, turns: int) -> None:
    build = prompter(compact=compact, history=history)
    plain = build.messages(TASK, played(turns), observation(turns))
    hint, lesson = build.hint_text("open fridge 1"), build.lesson_text("Open doors.")
    hinted, taught = build.with_hint(plain, hint), build.with_lesson(plain, lesson)
    assert hinted[-1].content.endswith(f"\n{hint}\n{build.turn_line}")
    assert f"{build.task_marker}cool some egg\n{lesson}" in taught[0].content
    assert_unhinted(plain, [hint, lesson])
    remarked = build.messages(TASK, played(turns), observation(turns), remarks=("Mind the door.",))
    assert f"cool some egg\n{build.style.remark('Mind the door.', 1)}" in remarked[0].content


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("reasoning", [False, True])
@given(action=st.text(alphabet=st.characters(exclude_characters="<>"), min_size=1).filter(str.strip))
def test_reply_is_parsed_back(tags: bool, reasoning: bool, action: str) -> None:
    build = prompter(action_tags=tags, reasoning=reasoning)
    assert build.parse(build.reply(action, "why")) == action.strip()
    assert ("<think>" in build.turn_line) == reasoning
    assert ("<action>" in build.turn_line) == tags


def words(texts: object) -> set[str]:
    return set(re.findall(r"</?\w+>|\w+|[^\w\s]", " ".join(texts)))  # type: ignore[call-overload]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("history", ["chat", 2])
def test_vocabulary_covers_what_is_added(compact: bool, history: object) -> None:
    build = prompter(compact=compact, history=history, system="Be brief.")
    shown = [TASK.instruction, *(turn.observation.text for turn in played(5)), "look take", "0 1 2 3 4"]
    known = words([*build.vocabulary_texts(), *shown])
    plain = build.messages(TASK, played(4), observation(4), remarks=("look",))
    full = build.with_lesson(build.with_hint(plain, build.hint_text("look")), build.lesson_text("look"))
    assert words(message.content for message in full) <= known


def test_actions_are_listed_only_if_wanted_and_known() -> None:
    assert "take thing" not in prompter(show_admissible=False).messages(TASK, (), observation(0))[0].content
    assert "Admissible" not in prompter().messages(TASK, (), Observation("x"))[0].content


@pytest.mark.parametrize("settings", [{"history": -1}, {"history": "all"}, {"windows": 3}])
def test_bad_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PromptSettings.model_validate(settings)
