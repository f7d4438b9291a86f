"""Hints, lessons and remarks: where they go, that they can be found again, and how leaks are recognised."""

from __future__ import annotations

import pytest

from turnpoint.prompts import (
    GENERIC_REFLECTION,
    REMARK_LIMIT,
    PrivilegedTextError,
    assert_unhinted,
    hint_text,
    insert_hint,
    insert_lesson,
    leaks,
    lesson_text,
    remark_text,
)
from turnpoint.records import Message

TURN = "It is your turn: act."
MESSAGES = (
    Message("system", "Your task is to: be kind"),
    Message("user", f"Rules.\nYour task is to: cool an egg\nYou see a fridge 1.\n{TURN}"),
    Message("assistant", "<action>look</action>", (1, 2)),
    Message("user", f"It says: {TURN}\nNothing happens.\n{TURN}"),
)


@pytest.mark.parametrize(
    "response",
    [
        "As the hint says, I open it.",
        "Following the suggestion, open fridge 1",
        "The provided approach is good.",
        "The given reasonable action makes sense",
        "I was told to open it.",
        "As recommended, I go",
        "According to the instruction, go",
        "the guidance is to open",
        "HINTED",
        "This is a reasonable approach.",
    ],
)
def test_leaks_are_found(response: str) -> None:
    assert leaks(response)


@pytest.mark.parametrize(
    "response",
    [
        "The egg is still hot. I should cool it, so I open the fridge. <action>open fridge 1</action>",
        "Given that the drawer is closed, the next action is to open it.",
        "I have been to the cabinet; my approach: search on.",
        "",
    ],
)
def test_own_reasoning_is_no_leak(response: str) -> None:
    assert not leaks(response)


def test_our_own_hint_is_recognised_if_repeated() -> None:
    assert leaks(hint_text("look"))


def test_hint_goes_before_the_last_turn_line() -> None:
    hinted = insert_hint(MESSAGES, hint_text("open fridge 1"), TURN)
    assert hinted[:3] == MESSAGES[:3]
    assert hinted[3].content == f"It says: {TURN}\nNothing happens.\n{hint_text('open fridge 1')}\n{TURN}"


def test_hint_without_a_turn_line_goes_to_the_end() -> None:
    assert insert_hint((Message("user", "obs"),), "H", "")[0].content == "obs\nH"
    assert insert_hint((Message("user", ""),), "H", "")[0].content == "H"


def test_hint_needs_its_place() -> None:
    with pytest.raises(ValueError, match="has no line"):
        insert_hint(MESSAGES, "H", "Go on:")
    with pytest.raises(ValueError, match="have none"):
        insert_hint(MESSAGES[:1], "H", TURN)


def test_lesson_goes_after_the_task_line_of_a_user_message() -> None:
    taught = insert_lesson(MESSAGES, lesson_text("Open doors."), "Your task is to: ")
    assert taught[0] == MESSAGES[0]
    assert taught[1].content == (
        f"Rules.\nYour task is to: cool an egg\n{lesson_text('Open doors.')}\nYou see a fridge 1.\n{TURN}"
    )
    assert taught[2:] == MESSAGES[2:]


def test_lesson_after_a_task_line_at_either_end() -> None:
    assert insert_lesson((Message("user", "Task: x"),), "L", "Task: ")[0].content == "Task: x\nL"
    with pytest.raises(ValueError, match="no user message"):
        insert_lesson((Message("user", "the Task: x"),), "L", "Task: ")


def test_remarks_are_cut() -> None:
    assert remark_text("x" * 5000, 1).count("x") == REMARK_LIMIT


def test_assert_unhinted() -> None:
    hint = hint_text("look")
    assert_unhinted(MESSAGES, [hint, None, "", " "])
    with pytest.raises(PrivilegedTextError, match="user message 3"):
        assert_unhinted(insert_hint(MESSAGES, hint, TURN), ["other", hint])
    with pytest.raises(PrivilegedTextError):
        assert_unhinted(insert_lesson(MESSAGES, "L 1", "Your task is to: "), ["L 1"])


def test_generic_reflection_names_no_action() -> None:
    assert "action:" not in GENERIC_REFLECTION


def test_replies_are_the_policys_own_words() -> None:
    """A reply that reads like a hint was made up by the policy: it is no privileged text."""
    hint = hint_text("open box")
    assert_unhinted([*MESSAGES, Message("assistant", f"I see. {hint}"), Message("user", "go on")], [hint])
    with pytest.raises(PrivilegedTextError):
        assert_unhinted([*MESSAGES, Message("assistant", "x"), Message("user", f"{hint}\ngo on")], [hint])
