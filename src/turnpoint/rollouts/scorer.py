"""Log-probs of recorded turns under plain, hinted and lesson-bearing prompts."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.policy import Policy, ScoreRequest
from turnpoint.policy.protocol import Floats, Which
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Message, Turn


class Scorer:
    """The student as its own token-level teacher: the same weights with other text in the prompt.

    Weights are those at the start of the training step, since only ``Policy.update`` changes them.
    """

    def __init__(self, policy: Policy, prompter: Prompter, renderer: ChatRenderer) -> None:
        self.policy = policy
        self.prompter = prompter
        self.renderer = renderer

    def request(self, messages: Sequence[Message], response_ids: Sequence[int]) -> ScoreRequest | None:
        """A request to score a response under ``messages``; None if it would not fit (never truncated)."""
        prompt = self.renderer.prompt_ids(messages)
        limit = self.prompter.settings.max_prompt_tokens or self.policy.context_length
        if len(prompt) > limit or len(prompt) + len(response_ids) > self.policy.context_length:
            return None
        return ScoreRequest(prompt, tuple(response_ids))

    def plain(self, turn: Turn) -> ScoreRequest | None:
        """The turn's response under its prompt without hints: the context it is trained under."""
        return self.request(turn.messages, turn.response_ids)

    def hinted(self, turn: Turn, hint: str) -> ScoreRequest | None:
        """The turn's response with a rendered hint before the final line of its prompt."""
        return self.request(self.prompter.with_hint(turn.messages, hint), turn.response_ids)

    def with_lesson(self, turn: Turn, lesson: str) -> ScoreRequest | None:
        """The turn's response with a lesson, rendered here, after the task line of its prompt."""
        text = self.prompter.lesson_text(lesson)
        return self.request(self.prompter.with_lesson(turn.messages, text), turn.response_ids)

    async def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probs [len(response_ids)] of each request, in order."""
        return self.policy.logprobs(requests, which) if requests else []
