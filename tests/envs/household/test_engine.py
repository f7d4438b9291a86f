from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs.household.engine import UNKNOWN, Engine
from turnpoint.envs.household.game import NOWHERE
from turnpoint.envs.household.goals import Goal
from turnpoint.envs.household.problem import HELP
from turnpoint.envs.household.text import introduction, listing

from .helpers import kitchen, random_states, small_game


def play(engine: Engine, *commands: str) -> str:
    """Answer to the last of ``commands``, all of which must be admissible."""
    state, answer = engine.game.start, ""
    for command in commands:
        state, answer, known = engine.step(state, command)
        assert known, command
    return answer


def test_transcript() -> None:
    engine = Engine(kitchen())
    assert introduction(engine.game) == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you "
        "see a countertop 1, a desk 1, a drawer 2, a drawer 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put some apple on fridge."
    )
    state = engine.game.start
    for command, answer in (
        (
            "go to countertop 1",
            "You arrive at countertop 1. On the countertop 1, you see a apple 1, a knife 1, and a mug 2.",
        ),
        ("take apple 1 from countertop 1", "You pick up the apple 1 from the countertop 1."),
        ("inventory", "You are carrying: a apple 1."),
        ("look", "You are facing the countertop 1. Next to it, you see nothing."),
        ("go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing."),
        ("clean apple 1 with sinkbasin 1", "You clean the apple 1 using the sinkbasin 1."),
        ("examine apple 1", "This is a clean apple 1."),
        ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ("heat apple 1 with microwave 1", "You heat the apple 1 using the microwave 1."),
        ("examine apple 1", "This is a hot and clean apple 1."),
        ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
        ("cool apple 1 with fridge 1", "You cool the apple 1 using the fridge 1."),
        ("examine apple 1", "This is a cool and clean apple 1."),
        ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see nothing."),
        ("move apple 1 to fridge 1", "You move the apple 1 to the fridge 1."),
    ):
        assert not engine.won(state)
        state, given_answer, known = engine.step(state, command)
        assert (given_answer, known) == (answer, True)
    assert engine.won(state)


def test_receptacles_at_one_place_leave_the_go_list_together() -> None:
    engine = Engine(kitchen())
    state = engine.step(engine.game.start, "go to drawer 2")[0]
    commands = engine.commands(state)
    assert "go to drawer 1" not in commands
    assert {"open drawer 1", "open drawer 2", "examine drawer 1"} <= set(commands)
    assert engine.step(state, "look")[1].startswith("You are facing the drawer 2, and drawer 1.")


def test_only_the_held_object_can_be_examined() -> None:
    engine = Engine(kitchen())
    state = engine.step(engine.game.start, "go to countertop 1")[0]
    assert "examine mug 2" not in engine.commands(state)
    taken = "This is a normal mug 2. In it, you see a pencil 1."
    assert play(engine, "go to countertop 1", "take mug 2 from countertop 1", "examine mug 2") == taken


def test_use_always_turns_on() -> None:
    engine = Engine(kitchen())
    again = play(engine, "go to desk 1", "use desklamp 1", "use desklamp 1")
    assert again == "You turn on the desklamp 1."


def test_slicing_needs_a_knife_and_the_object_at_hand() -> None:
    engine = Engine(kitchen())
    state = engine.step(engine.game.start, "go to countertop 1")[0]
    assert "slice apple 1 with knife 1" not in engine.commands(state)
    held = ("go to countertop 1", "take knife 1 from countertop 1")
    sliced = "You sliced the apple 1 with the knife 1."
    assert play(engine, *held, "slice apple 1 with knife 1") == sliced
    swap = ("slice apple 1 with knife 1", "move knife 1 to countertop 1", "take apple 1 from countertop 1")
    assert play(engine, *held, *swap, "examine apple 1") == "This is a sliced apple 1."


def test_look_sees_nothing_before_the_first_step() -> None:
    room = "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert play(Engine(kitchen()), "look") == room


def test_look_lists_what_was_taken_from_here_and_lies_elsewhere() -> None:
    engine = Engine(kitchen(without="microwave_bar_1"))
    first = (
        "go to drawer 1",
        "open drawer 2",
        "open drawer 1",
        "take mug 1 from drawer 2",
        "move mug 1 to drawer 1",
    )
    assert play(engine, *first, "look").endswith("Next to it, you see a mug 1.")


def test_help_is_admissible_and_unknown_commands_change_nothing() -> None:
    engine = Engine(kitchen())
    assert play(engine, "help") == HELP
    for command in ("", "fly to moon", "GO TO DESK 1", "take apple 1 from countertop 1"):
        assert engine.step(engine.game.start, command) == (engine.game.start, UNKNOWN, False)


def test_the_lamp_task_is_won_where_the_lamp_burns() -> None:
    goal = Goal("look_at_obj_in_light", "appletype", lamp="desklamptype")
    engine = Engine(kitchen(goal=goal))
    state = engine.game.start
    for command in ("go to desk 1", "use desklamp 1", "go to countertop 1", "take apple 1 from countertop 1"):
        state = engine.step(state, command)[0]
        assert not engine.won(state)
    assert engine.won(engine.step(state, "go to desk 1")[0])


def test_two_objects_must_share_one_receptacle() -> None:
    goal = Goal("pick_two_obj_and_place", "mugtype", "drawertype")
    engine = Engine(kitchen(goal=goal))
    state = engine.game.start
    fetch = (
        "go to countertop 1",
        "take mug 2 from countertop 1",
        "go to drawer 1",
        "open drawer 1",
        "open drawer 2",
    )
    for command in fetch:
        state = engine.step(state, command)[0]
    assert not engine.won(engine.step(state, "move mug 2 to drawer 1")[0])
    assert engine.won(engine.step(state, "move mug 2 to drawer 2")[0])


def test_a_treated_object_counts_only_after_the_treatment() -> None:
    goal = Goal("pick_clean_then_place_in_recep", "mugtype", "drawertype")
    assert not Engine(dirty := kitchen(goal=goal)).won(dirty.start)
    assert Engine(clean := kitchen(("isclean", "mug_bar_2"), goal=goal)).won(clean.start)


@pytest.mark.parametrize(
    ("names", "text"),
    [([], "nothing"), (["a"], "a"), (["a", "b"], "a, and b"), (["a", "b", "c"], "a, b, and c")],
)
def test_listing(names: list[str], text: str) -> None:
    assert listing(names) == text


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 200))
def test_random_play_keeps_the_world_sound(seed: int) -> None:
    engine = Engine(small_game(seed % 40))
    things = sorted(thing for inner in engine.game.start.contents for thing in inner)
    for state in random_states(engine, seed, 30):
        commands = list(engine.commands(state))
        assert commands == sorted(set(commands))
        held = [] if state.held == NOWHERE else [state.held]
        assert sorted([*held, *(thing for inner in state.contents for thing in inner)]) == things
        assert all(list(inner) == sorted(inner) for inner in state.contents)
        assert state.opened & ~engine.game.openable == 0
        for command in commands:  # a cached view must be the view of this very state
            assert engine.step(state, command)[2]
        assert list(Engine(engine.game).commands(state).items()) == list(engine.commands(state).items())
