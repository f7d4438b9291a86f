"""Action resolution: the table of the method's definition, and what holds for any input."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.prompts import resolve_action, same_action

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


MOVES = ("up", "down", "left", "right")


@pytest.mark.parametrize(
    ("reply", "admissible", "action"),
    [
        ("up,up,up", ["up", "down", "up, up", "up, up, up"], "up, up, up"),
        ("up,up,up", ["up", "down", "up, down"], None),
        ("up , up", ["up"], None),
        ("UP,DOWN", ["down, up", "up, down"], "up, down"),
        ("up, down", ["up", "down, up"], None),
        ("I go up, because it is close", ["up", "down"], "up"),
        ("(3,4)", ["(3, 4)", "(4, 3)"], "(3, 4)"),
        ("( 3 ,4 )", ["(3, 4)", "(13, 4)"], "(3, 4)"),
        ("3,4", ["(3, 4)", "(4, 3)", "(13, 4)"], "(3, 4)"),
        ("(4,3)", ["(3, 4)", "(5, 6)"], None),
        ("(3,4),(3,5)", ["(3, 4)", "(5, 6)"], None),
        ("open (3,4).", ["(3, 4)", "(3, 5)"], "(3, 4)"),
        ("click [ Buy Now ]", ["click[buy now]", "click[back]"], "click[buy now]"),
        ("click[red,large]", ["click[red, large]", "click[red]"], "click[red, large]"),
        ("[3,4]", ["(3, 4)", "{3, 4}"], None),
    ],
)
def test_spacing_of_commas_and_brackets(reply: str, admissible: list[str], action: str | None) -> None:
    assert resolve_action(reply, admissible).action == action


SEQUENCES = st.lists(st.sampled_from(MOVES), min_size=1, max_size=4)
CELLS = st.tuples(st.integers(1, 30), st.integers(1, 30))
GAP = st.sampled_from(["", " ", "  ", "\n"])


@given(st.lists(SEQUENCES, max_size=12), SEQUENCES, GAP, GAP)
def test_a_list_of_moves_means_itself_or_nothing(
    admissible: list[list[str]], wanted: list[str], before: str, after: str
) -> None:
    """Each single move is admissible too: it must never stand for a longer list."""
    listed = list(dict.fromkeys([*MOVES, *(", ".join(moves) for moves in admissible)]))
    found = resolve_action(f"{before},{after}".join(wanted), listed).action
    assert found == (", ".join(wanted) if ", ".join(wanted) in listed else None)


@given(st.lists(CELLS, min_size=1, max_size=12), CELLS, GAP, GAP, GAP)
def test_a_cell_means_itself_or_nothing(
    admissible: list[tuple[int, int]], wanted: tuple[int, int], a: str, b: str, c: str
) -> None:
    listed = [f"({row}, {column})" for row, column in dict.fromkeys(admissible)]
    found = resolve_action(f"{c}({a}{wanted[0]}{b},{a}{wanted[1]}{c})", listed).action
    assert found == (f"({wanted[0]}, {wanted[1]})" if wanted in admissible else None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("UP,up", "up, up", True),
        ("up up", "up, up", True),
        ("3 4", "(3, 4)", True),
        ("click [Buy Now]", "click[buy now]", True),
        ("up", "up, up", False),
        ("(3, 4)", "(4, 3)", False),
        ("answer[-3]", "answer[3]", False),
        ("open the fridge 1", "open fridge 1", False),
        ("", "()", False),
    ],
)
def test_same_action(one: str, other: str, same: bool) -> None:
    assert same_action(one, other) is same_action(other, one) is same


def test_two_admissible_actions_are_never_the_same() -> None:
    assert same_action("a b", "a, b")
    assert not same_action("a b", "a, b", ["a b", "a, b"])


@given(st.text(), st.text(), st.lists(st.text(), max_size=4))
def test_same_action_is_reflexive_and_symmetric(one: str, other: str, admissible: list[str]) -> None:
    assert same_action(one, one, admissible)
    assert same_action(one, other, admissible) == same_action(other, one, admissible)


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
