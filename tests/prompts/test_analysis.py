"""What teachers are asked."""

from __future__ import annotations

from turnpoint.prompts import parse_report, recovery_messages, report_messages
from turnpoint.records import Episode, Observation, StopReason, Task, Turn

TASK = Task(id="t", env="household", instruction="cool some egg")


def episode() -> Episode:
    turns = [
        Turn(
            index=n,
            observation=Observation(f"thing {n}", ("look", f"go {n}")),
            action=f"go {n}" if n else None,
            executed=f"go {n}" if n else "",
            response="" if n else "I do not know",
        )
        for n in range(4)
    ]
    return Episode("e", TASK, turns, StopReason.MAX_TURNS, False, final_observation=Observation("the end"))


def test_report_prompt_shows_task_outcome_and_every_turn() -> None:
    (message,) = report_messages(episode(), 3, instructions="Rules.")
    for part in (
        "Rules.",
        "cool some egg",
        "not solved (max turns)",
        "at most 3 turns",
        "from 0 to 3",
        "the end",
    ):
        assert part in message.content
    for n in range(4):
        assert f"[turn {n}] observation: thing {n}" in message.content
    assert "[turn 0] action: (none could be read) I do not know" in message.content
    assert "[turn 2] admissible: look | go 2" in message.content


def test_report_prompt_without_hindsight() -> None:
    (message,) = report_messages(episode(), 3, turns=2)
    assert "thing 1" in message.content
    assert "thing 2" not in message.content
    assert "not solved" not in message.content
    assert "the end" not in message.content


def test_the_form_that_is_asked_for_is_the_form_that_is_read() -> None:
    (message,) = report_messages(episode(), 3)
    filled = message.content.replace("<turn number>", "2").replace("<action>", "look")
    report = parse_report(filled[filled.index("```json") :], 4, 3)
    assert report is not None
    assert [(c.turn, c.action) for c in report.candidates] == [(2, "look")]
    assert set(report.turn_lessons) == {2}
    assert report.lesson
    assert report.summary


def test_recovery_prompt_shows_the_exact_situation() -> None:
    turns = episode().turns
    (message,) = recovery_messages(TASK, turns, Observation("now", ("look", "open fridge 1")), window=2)
    assert "Current observation: now\n" in message.content
    assert "look\nopen fridge 1" in message.content
    assert "thing 1" not in message.content
    assert "The last 2 of 4 turns" in message.content
    (start,) = recovery_messages(TASK, (), Observation("now"), instructions="Rules.")
    assert "turns so far" not in start.content
    assert "Admissible" not in start.content
