"""Action resolution: the table of the method's definition, and what holds for any input."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.prompts import resolve_action

ADMISSIBLE = (
    "go to drawer 1",
    "go to drawer 10",
    "go to fridge 1",
    "take egg 1 from fridge 1",
    "take apple 1 from fridge 1",
    "open fridge 1",
    "look",
    "inventory",
)


@pytest.mark.parametrize(
    ("reply", "action", "level"),
    [
        ("  Go  TO Drawer 1 ", "go to drawer 1", "exact"),
        ("take the egg 1 from the fridge 1", "take egg 1 from fridge 1", "articles"),
        ("I would open the fridge 1 now", "open fridge 1", "containment"),
        ("open the fridge", "open fridge 1", "containment"),
        ("go to drawer 10 please", "go to drawer 10", "containment"),
        ("go to drawer", None, "none"),
        ("take egg 1 out of fridge 1", "take egg 1 from fridge 1", "overlap"),
        ("take 1 from fridge 1", None, "none"),
        ("first look then inventory", None, "none"),
        ("dance", None, "none"),
        ("", None, "none"),
        (None, None, "none"),
        ("the", None, "none"),
        ("open fridge 1.", "open fridge 1", "containment"),
    ],
)
def test_table(reply: str | None, action: str | None, level: str) -> None:
    found = resolve_action(reply, ADMISSIBLE)
    assert (found.action, found.level) == (action, level)


def test_nothing_admissible_resolves_nothing() -> None:
    assert resolve_action("look", ()).action is None


def test_spelling_of_the_environment_is_returned() -> None:
    assert resolve_action("CLICK[B01]", ["click[b01]", "Click[Buy Now]"]).action == "click[b01]"
    assert resolve_action("click[buy now]", ["click[b01]", "Click[Buy Now]"]).action == "Click[Buy Now]"


def test_articles_that_hide_a_difference_are_ambiguous() -> None:
    assert resolve_action("take an egg", ["take the egg", "take egg"]).action is None


def test_overlap_must_exceed_one_half() -> None:
    assert resolve_action("a1 b c", ["a1 b d"]).action is None  # exactly 2/4
    assert resolve_action("a1 b c e", ["a1 b d e"]).level == "overlap"  # 3/5


@given(st.lists(st.text(min_size=1), max_size=8), st.text())
def test_result_is_admissible_or_none(admissible: list[str], reply: str) -> None:
    found = resolve_action(reply, admissible)
    assert (found.action is None) == (found.level == "none")
    assert found.action is None or found.action in admissible


@given(st.sampled_from(ADMISSIBLE), st.sampled_from(["", " ", "\n\t "]))
def test_every_action_resolves_to_itself(action: str, pad: str) -> None:
    assert resolve_action(pad + action.upper() + pad, ADMISSIBLE).action == action


def test_a_huge_reply_is_quick() -> None:
    started = time.process_time()
    resolve_action("go to drawer 1x " * 60_000, ADMISSIBLE)
    assert time.process_time() - started < 2.0
