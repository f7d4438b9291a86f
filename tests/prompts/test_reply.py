"""Reading the action out of a reply."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.prompts import drop_reasoning, parse_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>look</action>", "look"),
        ("I look.\n<ACTION>\n go to drawer 1 \n</Action> done", "go to drawer 1"),
        ("<action>look</action> no, <action>inventory</action>", "inventory"),
        ("<think>maybe <action>look</action></think><action>open fridge 1</action>", "open fridge 1"),
        ("maybe <action>look</action></think><action>open fridge 1</action>", "open fridge 1"),
        ("<action>look</action><think>was that right", "look"),
        ("<think>a<think>b</think>c</think><action>look</action>", "look"),
        ("<think>a<think>b</think><action>look</action>", "look"),
        ("<think><action>look</action>", None),
        ("<action>wrong <action>look</action>", "look"),
        ("<action>outer <action>look</action></action>", "look"),
        ("<action>look</action> <action>inven", "look"),
        ("<action>look", None),
        ("look</action>", None),
        ("</action>look<action>", None),
        ("<action>  </action>", None),
        ("<action>look</action><action></action>", None),
        ("look", None),
        ("", None),
    ],
)
def test_tagged(text: str, action: str | None) -> None:
    assert parse_action(text, tags=True) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [(" look \n", "look"), ("<think>hm</think>\nlook", "look"), ("<think>hm", None), ("  ", None)],
)
def test_untagged(text: str, action: str | None) -> None:
    assert parse_action(text, tags=False) == action


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<action>", "</action>", "x", " ", "<", ">"])),
    st.booleans(),
)
def test_any_mixture_of_tags_gives_a_clean_action_or_none(parts: list[str], tags: bool) -> None:
    action = parse_action("".join(parts), tags)
    assert action is None or (action and action == action.strip())
    if tags and action is not None:
        assert "<action>" not in action
        assert "</action>" not in action


@given(st.text(alphabet=st.characters(exclude_characters="<>"), min_size=1), st.text())
def test_an_answer_after_reasoning_is_found(action: str, reasoning: str) -> None:
    assert parse_action(f"{reasoning}</think><action>{action}</action>", True) == (action.strip() or None)


@given(st.text(alphabet=st.characters(exclude_characters="<>")))
def test_text_without_reasoning_is_kept(text: str) -> None:
    assert drop_reasoning(text) == text


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "<action>", "</action>", "<action></action>", "<", "x"]
)
def test_huge_replies_are_quick(piece: str) -> None:
    started = time.process_time()
    parse_action(piece * (1_000_000 // len(piece)), tags=True)
    assert time.process_time() - started < 1.0
