"""One small report before a run: does the endpoint answer in the form that reports are read in?"""

from __future__ import annotations

from turnpoint.prompts.analysis import report_messages
from turnpoint.prompts.report import Report, parse_report
from turnpoint.records import Episode, Message, Observation, StopReason, Task, Turn

TURNS = 3
_STORY = (
    ("You are in a dark room. There is a lamp on the desk and a door.", "open door"),
    ("The door is locked. A key lies under the lamp, but it is too dark to see it.", "open door"),
    ("The door is locked.", "open door"),
)
_CHOICES = ("switch on lamp", "take key", "open door", "wait")


def _turn(index: int, text: str, action: str) -> Turn:
    seen = Observation(text, admissible=_CHOICES)
    return Turn(index, seen, response=f"<action>{action}</action>", action=action, executed=action)


def probe_episode() -> Episode:
    """Three turns at a locked door, beside a lamp."""
    return Episode(
        id="probe",
        task=Task(id="probe", env="probe", instruction="Leave the room."),
        turns=[_turn(index, text, action) for index, (text, action) in enumerate(_STORY)],
        final_observation=Observation("The door is locked.", admissible=_CHOICES),
        stop=StopReason.FAILURE,
        success=False,
    )


def probe_messages() -> tuple[Message, ...]:
    """The question."""
    return report_messages(probe_episode(), 1)


def read_probe(text: str) -> Report | None:
    """The answer as a report; None if it cannot be read."""
    return parse_report(text, TURNS, 1)
