"""Wording of prompts: a full one for language models and a compact one for tiny word-level models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnpoint.prompts.hints import GENERIC_REFLECTION, REMARK_LIMIT, hint_text, lesson_text, remark_text
from turnpoint.prompts.settings import PromptSettings
from turnpoint.records import Observation, Turn


@dataclass(frozen=True, slots=True)
class Style:
    """The full wording."""

    settings: PromptSettings

    task_marker = "Your task is to: "

    @property
    def turn_line(self) -> str:
        """Last line of every user message; hints go before it."""
        answer = (
            "one action inside <action> </action> tags" if self.settings.action_tags else "only the action"
        )
        if self.settings.reasoning:
            return f"It is your turn: reason inside <think> </think> tags, then give {answer}."
        return f"It is your turn: give {answer}."

    def opening(self, instructions: str, instruction: str) -> str:
        """Rules and task line."""
        task = f"{self.task_marker}{instruction}"
        return f"{instructions.strip()}\n\n{task}" if instructions.strip() else task

    def situation(self, observation: Observation) -> str:
        """What the agent sees in one turn, and what it may do if that is shown."""
        text = observation.text.strip()
        if not self.settings.show_admissible or observation.admissible is None:
            return text
        return f"{text}\n{self.admissible(observation.admissible)}"

    def admissible(self, actions: Sequence[str]) -> str:
        """The list of admissible actions."""
        return "Admissible actions:\n" + "\n".join(actions)

    def history(self, turns: Sequence[Turn], total: int) -> str:
        """The last turns of ``total`` as text, for prompts of a single message."""
        lines = [f"Actions taken so far: {total}. The last {len(turns)} turns:"]
        for turn in turns:
            lines.append(f"Observation {turn.index + 1}: {turn.observation.text.strip()}")
            lines.append(f"Action {turn.index + 1}: {turn.executed.strip() or '(none)'}")
        return "\n".join(lines)

    def current(self, number: int) -> str:
        """Heading of the current observation in prompts of a single message; ``number`` is 1-based."""
        return f"Current observation, turn {number}:"

    def hint(self, action: str) -> str:
        """The hint that names ``action``."""
        return hint_text(action)

    def generic_hint(self) -> str:
        """A hint that names no action: look back and think."""
        return GENERIC_REFLECTION

    def lesson(self, lesson: str) -> str:
        """An episode lesson."""
        return lesson_text(lesson)

    def remark(self, remark: str, number: int) -> str:
        """A remark of an earlier attempt."""
        return remark_text(remark, number)


@dataclass(frozen=True, slots=True)
class CompactStyle(Style):
    """Few words, all of them listed by ``vocabulary``."""

    task_marker = "Task: "

    @property
    def turn_line(self) -> str:
        return "Act:"

    def opening(self, instructions: str, instruction: str) -> str:
        return f"{self.task_marker}{instruction}"

    def admissible(self, actions: Sequence[str]) -> str:
        return "Can: " + ", ".join(actions)

    def history(self, turns: Sequence[Turn], total: int) -> str:
        return "\n".join(
            f"{turn.observation.text.strip()}\nDid: {turn.executed.strip() or 'none'}" for turn in turns
        )

    def current(self, number: int) -> str:
        return "Now:"

    def hint(self, action: str) -> str:
        return f"Hint: {action}"

    def generic_hint(self) -> str:
        return "Hint: look"

    def lesson(self, lesson: str) -> str:
        return f"Lesson: {lesson}"

    def remark(self, remark: str, number: int) -> str:
        return f"Remark: {remark.strip()[:REMARK_LIMIT]}"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word this wording adds to what the environment shows."""
        return (
            "Task: Act: Can: , Did: none Now: Hint: look Lesson: Remark: <action> </action> <think> </think>",
            "Do instead of .",  # what a lesson of the oracle says around actions
        )


def make_style(settings: PromptSettings) -> Style:
    """The wording that ``settings`` ask for."""
    return CompactStyle(settings) if settings.compact else Style(settings)
