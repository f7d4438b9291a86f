"""Turn a task and its history into chat messages, and a reply into an action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnpoint.prompts.hints import insert_hint, insert_lesson
from turnpoint.prompts.reflection import COMPACT_VOCABULARY
from turnpoint.prompts.reply import parse_action
from turnpoint.prompts.settings import PromptSettings
from turnpoint.prompts.style import CompactStyle, make_style
from turnpoint.records import Message, Observation, Task, Turn


class Prompter:
    """Builds prompts for one environment; stateless, the same arguments give the same messages."""

    def __init__(self, settings: PromptSettings, instructions: str = "") -> None:
        """``instructions``: the environment's rules (``EnvSuite.instructions``)."""
        self.settings = settings
        self.instructions = instructions
        self.style = make_style(settings)
        self.turn_line = self.style.turn_line
        self.task_marker = self.style.task_marker

    def messages(
        self, task: Task, turns: Sequence[Turn], observation: Observation, *, remarks: Sequence[str] = ()
    ) -> tuple[Message, ...]:
        """The prompt for the turn after ``turns``; ``remarks`` of earlier attempts go after the task line.

        In chat mode earlier replies are assistant messages with the token ids that were sampled; a turn
        without them (imported, demonstrated) has text only.
        """
        lines = [self.style.opening(self.instructions, task.instruction)]
        lines += [self.style.remark(remark, number) for number, remark in enumerate(remarks, start=1)]
        opening = "\n".join(lines)
        system = (Message("system", self.settings.system),) if self.settings.system is not None else ()
        if self.settings.history == "chat":
            return (*system, *self._conversation(opening, turns, observation))
        return (*system, self._single(opening, turns, observation, self.settings.history))

    def with_hint(self, messages: Sequence[Message], hint: str) -> tuple[Message, ...]:
        """``messages`` with a rendered hint (see ``hint_text``) before the last "your turn" line."""
        return insert_hint(messages, hint, self.turn_line)

    def with_lesson(self, messages: Sequence[Message], lesson: str) -> tuple[Message, ...]:
        """``messages`` with a rendered lesson (see ``lesson_text``) after the task line."""
        return insert_lesson(messages, lesson, self.task_marker)

    def hint_text(self, action: str) -> str:
        """The hint that names ``action``, in this prompt's wording."""
        return self.style.hint(action)

    def generic_hint(self) -> str:
        """A hint that names no action, in this prompt's wording (the ablation without gold actions)."""
        return self.style.generic_hint()

    def lesson_text(self, lesson: str) -> str:
        """An episode lesson in this prompt's wording."""
        return self.style.lesson(lesson)

    def reply(self, action: str, reasoning: str = "") -> str:
        """The reply in which a policy would give ``action``; ``parse`` gives it back."""
        body = f"<action>{action}</action>" if self.settings.action_tags else action
        return f"<think>{reasoning}</think>\n{body}" if self.settings.reasoning else body

    def parse(self, text: str) -> str | None:
        """The action of a reply; None if it has none."""
        return parse_action(text, tags=self.settings.action_tags)

    def vocabulary_texts(self) -> Iterable[str]:
        """Strings that together hold every word this prompter adds to what the environment shows.

        Complete for the compact wording; for the full one they hold the wording without lessons and remarks.
        """
        if isinstance(self.style, CompactStyle):
            yield from (*self.style.vocabulary, *COMPACT_VOCABULARY)
        else:
            numbers = " ".join(str(number) for number in range(101))
            yield from (self.instructions, self.turn_line, self.style.history((), 0), self.style.current(1))
            yield from (self.style.admissible(()), "Observation Action (none)", numbers, self.style.hint(""))
            yield from (
                self.style.lesson(""),
                self.style.remark("", 1),
                self.style.opening("", ""),
                self.reply(""),
            )
        if self.settings.system is not None:
            yield self.settings.system

    def _conversation(
        self, opening: str, turns: Sequence[Turn], observation: Observation
    ) -> tuple[Message, ...]:
        messages: list[Message] = []
        lead = f"{opening}\n"
        for turn in turns:
            messages.append(self._user(lead, turn.observation))
            content = turn.response or self.reply(turn.executed)
            messages.append(Message("assistant", content, turn.response_ids or None))
            lead = ""
        messages.append(self._user(lead, observation))
        return tuple(messages)

    def _user(self, lead: str, observation: Observation) -> Message:
        return Message("user", f"{lead}{self.style.situation(observation)}\n{self.turn_line}")

    def _single(self, opening: str, turns: Sequence[Turn], observation: Observation, window: int) -> Message:
        parts = [opening]
        shown = turns[max(len(turns) - window, 0) :]
        if shown:
            parts.append(self.style.history(shown, len(turns)))
        parts.append(f"{self.style.current(len(turns) + 1)}\n{self.style.situation(observation)}")
        parts.append(self.turn_line)
        return Message("user", "\n\n".join(parts))
