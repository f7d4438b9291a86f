"""What teachers are asked: the *report* on a finished episode and the *recovery* action in one situation."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.records import Episode, Message, Observation, Task, Turn

_REPORT_FORM = """\
Answer in two parts.
First a JSON object in a fenced block:
```json
{{"summary": "<what happened, in two or three sentences>",
 "lesson": "<one lesson that would help a new attempt at this task>",
 "turn_lessons": {{"<turn number>": "<what went wrong in this turn and why>"}}}}
```
Then, for each turn you listed, the action that should have been taken instead, as a literal action the \
environment can execute:
<correct_action step="<turn number>"><action></correct_action>
List at most {m} turns, the most decisive first. Turn numbers are 0-based{span}. Name a turn only if another \
action, given what was known at that moment, would have been clearly better; if there is none, leave \
"turn_lessons" empty and write no correct_action."""


def report_messages(
    episode: Episode, max_pivots: int, *, instructions: str = "", turns: int | None = None
) -> tuple[Message, ...]:
    """Ask for a report on ``episode`` with at most ``max_pivots`` gold actions.

    ``turns`` shows only the first so many turns and hides the outcome: the answer cannot use hindsight.
    """
    shown = episode.turns if turns is None else episode.turns[:turns]
    parts = [
        "You review one episode of an agent and find the turns that decided it.",
        instructions.strip(),
        f"Task: {episode.task.instruction}",
        f"Outcome: {_outcome(episode) if turns is None else 'not known yet'}",
        "Trajectory:\n" + transcript(shown, admissible=True),
    ]
    if turns is None and episode.final_observation is not None:
        parts.append(f"Observation after the last turn: {episode.final_observation.text.strip()}")
    span = f", from 0 to {len(shown) - 1}" if shown else ""
    parts.append(_REPORT_FORM.format(m=max_pivots, span=span))
    return (Message("user", _joined(parts)),)


def recovery_messages(
    task: Task, turns: Sequence[Turn], observation: Observation, *, instructions: str = "", window: int = 5
) -> tuple[Message, ...]:
    """Ask for the single best next action after ``turns``; the last ``window`` of them are shown."""
    shown = list(turns)[max(len(turns) - window, 0) :]
    parts = [
        "An agent is in the middle of a task. Choose its next action.",
        instructions.strip(),
        f"Task: {task.instruction}",
    ]
    if shown:
        parts.append(f"The last {len(shown)} of {len(turns)} turns so far:\n{transcript(shown)}")
    parts.append(f"Current observation: {observation.text.strip()}")
    if observation.admissible is not None:
        parts.append("Admissible actions:\n" + "\n".join(observation.admissible))
    parts.append(
        "Which single action is best now? Undo or work around earlier mistakes where that is needed. "
        "Give it literally, in one block and nothing after it: <action>...</action>"
    )
    return (Message("user", _joined(parts)),)


def transcript(turns: Sequence[Turn], *, admissible: bool = False) -> str:
    """Turns as text: number, observation, admissible actions if wanted, and what was executed."""
    lines = []
    for turn in turns:
        lines.append(f"[turn {turn.index}] observation: {turn.observation.text.strip()}")
        if admissible and turn.observation.admissible is not None:
            lines.append(f"[turn {turn.index}] admissible: {' | '.join(turn.observation.admissible)}")
        action = turn.executed if turn.valid else f"(none could be read) {turn.response.strip()[-200:]}"
        lines.append(f"[turn {turn.index}] action: {action}")
    return "\n".join(lines)


def _outcome(episode: Episode) -> str:
    if episode.success is None:
        return "stopped before it had one"
    reason = f" ({episode.stop.value.replace('_', ' ')})" if episode.stop else ""
    return "the task was solved" if episode.success else f"the task was not solved{reason}"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
