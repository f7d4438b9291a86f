from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnpoint.envs.household.goals import TASK_TYPES, TREATMENTS, Goal, goal_text, parse_goal
from turnpoint.envs.household.index import display_names, index_game, load_game
from turnpoint.envs.household.problem import GameFileError, parse_document, parse_problem
from turnpoint.envs.household.writing import problem_text, write_game

from .helpers import kitchen, small_game

PATH = Path("somewhere/game.tw-pddl")
GRAMMAR = (
    'grammar :: """\n{"task": [\n {\n "rhs": "Your task is to: old."\n }\n]}\n""";\n'
    'action PutObject {\n template :: "move {o} to {r}";\n}\n'
    'action help {\n template :: "help";\n feedback :: "\nAvailable commands:\n  look: other words\n";\n}\n'
)
TEMPLATE = {
    "pddl_domain": "(define (domain alfred))",
    "grammar": GRAMMAR,
    "pddl_problem": "",
    "walkthrough": [],
}


def document(**changes: Any) -> dict[str, Any]:
    game = small_game(0).problem
    made = {"format": "turnpoint-household", "task": game.task, "pddl_problem": problem_text(game)}
    made |= {"walkthrough": list(game.walkthrough), **changes}
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize("seed", range(12))
def test_round_trip_of_the_compact_format(seed: int, tmp_path: Path) -> None:
    game = small_game(seed)
    write_game(game.problem, tmp_path / "game.tw-pddl")
    assert load_game(tmp_path / "game.tw-pddl") == game


def test_round_trip_with_a_template(tmp_path: Path) -> None:
    (tmp_path / "real.tw-pddl").write_text(json.dumps(TEMPLATE))
    game = kitchen()
    write_game(game.problem, tmp_path / "game.tw-pddl", template=tmp_path / "real.tw-pddl")
    written = json.loads((tmp_path / "game.tw-pddl").read_text())
    assert written["pddl_domain"] == TEMPLATE["pddl_domain"]
    assert "old" not in written["grammar"]
    back = load_game(tmp_path / "game.tw-pddl")
    assert back.problem.facts == game.problem.facts
    assert (back.problem.task, back.goal) == (game.problem.task, game.goal)
    assert back.problem.help == "Available commands:\n  look: other words\n"


def test_a_template_must_be_a_released_game(tmp_path: Path) -> None:
    write_game(kitchen().problem, tmp_path / "compact.tw-pddl")
    with pytest.raises(GameFileError, match="no domain and grammar"):
        write_game(kitchen().problem, tmp_path / "new.tw-pddl", template=tmp_path / "compact.tw-pddl")


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_goals_read_back(kind: str) -> None:
    if kind == "look_at_obj_in_light":
        goal = Goal(kind, "mugtype", lamp="desklamptype")
    else:
        goal = Goal(kind, "mugtype", "desktype")
    assert parse_goal(goal_text(goal) + "\n)") == goal
    spread = goal_text(goal).replace("(", " (\n ").replace(")", " )\t")
    assert parse_goal(spread) == goal


@pytest.mark.parametrize("kind", sorted(TREATMENTS))
def test_a_goal_that_only_resembles_a_known_one_is_refused(kind: str) -> None:
    text = goal_text(Goal(kind, "mugtype", "desktype"))
    with pytest.raises(ValueError, match="none of the six"):
        parse_goal(text.replace(f"({TREATMENTS[kind].done} ?o)", f"(not ({TREATMENTS[kind].done} ?o))"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pddl_problem": None}, "no 'pddl_problem'"),
        ({"pddl_problem": "(define"}, "cut short"),
        ({"pddl_problem": document()["pddl_problem"][:-40]}, "cut short"),
        ({"pddl_problem": "(:init (p a)) (:goal (and (won)))"}, "none of the six"),
        ({"task": None}, "no 'task'"),
        ({"format": None, "task": None}, "no 'grammar'"),
        ({"format": None, "grammar": "x"}, "no task sentence"),
        ({"format": None, "grammar": GRAMMAR.replace("move", "put")}, "older than ALFWorld 0.4"),
        ({"walkthrough": [1]}, "walkthrough"),
        ({"walkthrough": "look"}, "walkthrough"),
    ],
)
def test_unusable_documents_say_what_is_wrong(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(GameFileError, match=reason) as caught:
        parse_problem(document(**changes), PATH)
    assert str(PATH) in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "without", "reason"),
    [
        (("atlocation", "agent1", "loc_bar_3"), "", "2 start locations"),
        ((), "atlocation", "0 start locations"),
        ((), "receptacleatlocation", "no receptacle"),
        (("receptacleatlocation", "desk_bar_1", "loc_bar_7"), "", "two locations"),
        (("inreceptacle", "mug_bar_1", "attic_bar_1"), "", "no location"),
        (("objecttype", "mug_bar_1", "cuptype"), "", "two types"),
        (("inreceptacle", "mug_bar_1"), "", "has 1 arguments"),
        (("openable",), "", "has 0 arguments"),
        (("objecttype", "mug", "mugtype"), "", "not an ALFWorld identifier"),
    ],
)
def test_impossible_facts_are_refused(extra: tuple[str, ...], without: str, reason: str) -> None:
    with pytest.raises(GameFileError, match=reason):
        kitchen(*([extra] if extra else []), without=without)


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"null", b"{" * 5000])
def test_files_that_are_no_json_objects(raw: bytes) -> None:
    with pytest.raises(GameFileError, match="game"):
        parse_document(raw, PATH)


def test_missing_file_and_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(GameFileError, match="cannot be read"):
        load_game(tmp_path / "game.tw-pddl")
    with pytest.raises(GameFileError, match="cannot be read"):
        load_game(tmp_path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_never_crash(data: st.DataObject) -> None:
    raw = bytearray(json.dumps(document()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(1, len(raw))) :]
    with contextlib.suppress(GameFileError):
        index_game(parse_problem(parse_document(bytes(raw), PATH), PATH))


@settings(max_examples=100, deadline=None)
@given(
    facts=st.lists(
        st.lists(st.sampled_from(["a_bar_1", "b_bar_2", "inreceptacle", "holds", "x"]), max_size=3)
    )
)
def test_junk_facts_never_crash(facts: list[list[str]]) -> None:
    junk = [("inreceptacle", *fact) for fact in facts] + [tuple(fact) for fact in facts if fact]
    with contextlib.suppress(GameFileError):
        kitchen(*junk)


def test_names_count_down_along_the_ids() -> None:
    ids = ["mug_bar_b", "mug_bar_a", "sink_bar_1_bar_sinkbasin", "sink_bar_1", "agent1"]
    names = display_names(ids)
    assert names["mug_bar_a"] == "mug 2"
    assert names["mug_bar_b"] == "mug 1"
    assert names["sink_bar_1_bar_sinkbasin"] == "sinkbasin 1"
    assert names["sink_bar_1"] == "sink 1"
    assert "agent1" not in names
