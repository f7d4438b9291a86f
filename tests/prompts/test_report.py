"""Parsing reports: tolerant of form, strict on turns, never raising, linear in time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.prompts import Candidate, Report, parse_recovery, parse_report


def gold(step: str, action: str = "open fridge 1") -> str:
    return f"<correct_action step={step}>{action}</correct_action>"


def turns(report: Report | None) -> list[int]:
    assert report is not None
    return [candidate.turn for candidate in report.candidates]


FULL = """<think>{"lesson": "thought"} <correct_action step="0">think</correct_action></think>
Here is my report.
```json
{"summary": "It went wrong.", "lesson": "Look first.", "turn_lessons": {"3": "too early", "5": "wrong place"}}
```
<correct_action step="5">go to drawer 1</correct_action>
<correct_action step="3">
  open fridge 1
</correct_action>
<correct_action step="4">look</correct_action>
"""


def test_full_report() -> None:
    assert parse_report(FULL, n_turns=8, max_pivots=5) == Report(
        summary="It went wrong.",
        lesson="Look first.",
        turn_lessons={3: "too early", 5: "wrong place"},
        candidates=[Candidate(5, "go to drawer 1"), Candidate(3, "open fridge 1")],
    )


def test_first_pivots_in_the_teachers_order_stay() -> None:
    assert turns(parse_report(FULL, 8, 1)) == [5]
    assert turns(parse_report(FULL, 8, 0)) == []


@pytest.mark.parametrize(
    "step",
    [
        "3",
        '"3"',
        "'3'",
        "“3”",
        "`3`",
        ' " 3 " ',
        '\\"3\\"',
        "\n3\n",
        "&quot;3&quot;",
        "'3' confidence='high'",
    ],
)
def test_any_quoting_of_the_turn(step: str) -> None:
    assert turns(parse_report(gold(step), 8, 5)) == [3]


@pytest.mark.parametrize("step", ["-1", "8", "3.0", "three", "", '""', "1e1", "9" * 5000, "٣", "true"])
def test_turns_that_are_none_are_dropped(step: str) -> None:
    assert parse_report(gold(step), 8, 5) is None
    assert turns(parse_report(gold(step) + gold("2"), 8, 5)) == [2]


def test_a_duplicate_turn_keeps_the_first() -> None:
    report = parse_report(gold("2", "look") + gold('"2"', "inventory"), 8, 5)
    assert report is not None
    assert report.candidates == [Candidate(2, "look")]


def test_blank_action_does_not_count() -> None:
    report = parse_report(gold("2", "  ") + gold("2", "look"), 8, 5)
    assert report is not None
    assert report.candidates == [Candidate(2, "look")]


def test_bad_json_with_good_actions_gives_actions_without_lesson() -> None:
    report = parse_report('```json\n{"lesson": "x", "summary": }\n```' + gold("1"), 8, 5)
    assert report is not None
    assert (report.lesson, report.summary, turns(report)) == (None, "", [1])


def test_lesson_only() -> None:
    report = parse_report('{"lesson": "Look first."}', 8, 5)
    assert report == Report(lesson="Look first.")


@pytest.mark.parametrize(
    "text", ["", "no report", "{}", "[1, 2]", "```json\n[]\n```", "{broken", "<think>" + FULL[7:60]]
)
def test_neither_gives_no_report(text: str) -> None:
    assert parse_report(text, 8, 5) is None


def test_last_fenced_object_wins() -> None:
    text = '```json\n{"lesson": "draft"}\n```\nBetter:\n```\n{"lesson": "final"}\n```\n{"lesson": "after"}'
    report = parse_report(text, 8, 5)
    assert report is not None
    assert report.lesson == "final"


def test_unfenced_object_among_prose_and_braces() -> None:
    text = 'A set {a, b}. {"x": 1} So: {"lesson": "keep {braces} and \\"quotes\\"", "summary": "s"} end }'
    report = parse_report(text, 8, 5)
    assert report is not None
    assert report.lesson == 'keep {braces} and "quotes"'


def test_unclosed_fence_and_line_breaks_inside_strings() -> None:
    report = parse_report('```json\n{"lesson": "two\nlines"}', 8, 5)
    assert report is not None
    assert report.lesson == "two\nlines"


def test_fence_marks_inside_a_string() -> None:
    report = parse_report('{"lesson": "use ```code``` blocks"}', 8, 5)
    assert report is not None
    assert report.lesson == "use ```code``` blocks"


def test_turn_lessons_as_list_and_invalid_keys() -> None:
    data = {
        "turn_lessons": [
            {"turn": 1, "lesson": "a"},
            {"turn": "2", "lesson": "b"},
            {"turn": 99, "lesson": "c"},
            4,
        ]
    }
    report = parse_report(json.dumps(data) + gold("1") + gold("3"), 8, 5)
    assert report is not None
    assert report.turn_lessons == {1: "a", 2: "b"}
    assert turns(report) == [1]


def test_lesson_keys_that_name_no_turn_do_not_filter() -> None:
    assert turns(parse_report('{"turn_lessons": {"99": "x"}}' + gold("1"), 8, 5)) == [1]


def test_wrong_types_are_ignored() -> None:
    report = parse_report('{"summary": 3, "lesson": null, "turn_lessons": "x"}', 8, 5)
    assert report == Report()


def test_lone_surrogates_are_replaced() -> None:
    report = parse_report('{"lesson": "a\\ud800b"}', 8, 5)
    assert report is not None
    assert report.lesson == "a?b"


@given(st.text(), st.integers(-2, 5), st.integers(-2, 5))
def test_arbitrary_text_never_raises(text: str, n_turns: int, pivots: int) -> None:
    parse_report(text, n_turns, pivots)


PARTS = st.sampled_from([
    "<think>", "</think>", "```", "```json", "{", "}", '"', "\\", ":", ",", "[", "]", '"lesson"', '"turn_lessons"',
    "<correct_action step=", "1", "-2", ">", "</correct_action>", "look", "null", "\ud800", "\n", " ",
])  # fmt: skip


@given(st.lists(PARTS, max_size=60), st.integers(0, 4), st.integers(0, 3))
def test_fragments_never_raise_and_keep_the_contract(parts: list[str], n_turns: int, pivots: int) -> None:
    report = parse_report("".join(parts), n_turns, pivots)
    if report is not None:
        named = turns(report)
        assert len(named) == len(set(named)) <= pivots
        assert all(0 <= turn < n_turns for turn in [*named, *report.turn_lessons])
        assert all(candidate.action.strip() for candidate in report.candidates)
        json.dumps(report.lesson).encode()


@given(
    st.dictionaries(st.integers(0, 9), st.text(min_size=1).filter(str.strip), max_size=5),
    st.text(),
    st.lists(st.integers(-3, 12), max_size=8),
)
def test_well_formed_reports_are_read_back(lessons: dict[int, str], lesson: str, named: list[int]) -> None:
    data = {"summary": "s", "lesson": lesson, "turn_lessons": {str(k): v for k, v in lessons.items()}}
    text = f"```json\n{json.dumps(data)}\n```\n" + "".join(gold(f'"{n}"', f"go {n}") for n in named)
    report = parse_report(text, 10, 99)
    assert report is not None
    assert report.lesson == (lesson.strip() or None)
    assert set(report.turn_lessons) == set(lessons)
    expected = [n for n in dict.fromkeys(named) if 0 <= n < 10 and (not lessons or n in lessons)]
    assert turns(report) == expected


HOSTILE = [
    "{", "}", "[", '{"a":', '{"a":[', '"', "\\", "```", "```{", "<think>", "</think>", "<correct_action step=1>",
    "<correct_action ", "<correct_action>", "</correct_action>", "<correct_action step=1>x</correct_action>",
    "</ ", "</", "<", "step=", " ", "\u3000", "9",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_megabytes_are_quick(piece: str) -> None:
    for lead in ("", '{"lesson": "', "<correct_action step="):
        started = time.process_time()
        parse_report(lead + piece * (1_000_000 // len(piece)), 10, 5)
        assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>look</action>", "look"),
        ('<correct_action step="2">look</correct_action>', "look"),
        ("<correct_action>look</correct_action>", "look"),
        ("<think><action>a</action></think> I say look", None),
        ("", None),
    ],
)
def test_recovery(text: str, action: str | None) -> None:
    assert parse_recovery(text) == action
