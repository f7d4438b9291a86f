"""Episodes as token sequences with a weight per token, for supervised training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from turnpoint.config import ConfigError
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Episode, Message, Turn
from turnpoint.training.demonstrator import DETOUR_TURNS, NOISE_TURNS, SKIPPED_TURNS

Hints = Literal["separate", "inline", "off"]
Example = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Token ids ``[n]`` and the weight ``[n]`` of predicting each of them from those before."""


class _Row:
    """The sequence in the making: it grows as long as prompts extend what it holds."""

    def __init__(self, builder: SequenceBuilder, examples: list[Example]) -> None:
        self._builder = builder
        self._examples = examples
        self._ids: list[int] = []
        self._weights: list[float] = []

    def add(self, messages: Sequence[Message], response: Sequence[int], weight: float) -> None:
        prompt = self._builder.renderer.prompt_ids(messages)
        if not self._builder.renderer.extends(tuple(self._ids), prompt):
            self.finish()
        self._weights += [self._builder.observation_weight] * (len(prompt) - len(self._ids))
        self._ids += prompt[len(self._ids) :]
        self._ids += response
        self._weights += [weight] * len(response)

    def finish(self) -> None:
        _keep(self._ids, self._weights, self._examples)
        self._ids, self._weights = [], []


def _keep(ids: Sequence[int], weights: Sequence[float], examples: list[Example]) -> None:
    if any(weight > 0 for weight in weights[1:]):
        examples.append((np.asarray(ids, dtype=np.int64), np.asarray(weights, dtype=np.float64)))


@dataclass(slots=True)
class SequenceBuilder:
    """Turns episodes into sequences; turns whose prompts extend each other share one.

    Everything is encoded from text with the renderer's tokenizer: token ids in the episodes may be another
    model's.
    """

    renderer: ChatRenderer
    prompter: Prompter | None = None
    """Builds the prompts; without it the recorded messages of each turn are used."""
    observation_weight: float = 0.0
    """Weight of prompt tokens; responses have 1."""
    hints: Hints = "separate"
    """``separate``: a hinted turn is trained in a sequence of its own; ``inline``: its hint stays in the episode's
    one sequence (fewer tokens; chat prompts only); ``off``: hints are left out."""
    train_noise: bool = False
    """Train actions that were drawn at random."""
    counts: Counter[str] = field(default_factory=Counter)
    """Turns trained and left out, by reason."""

    def build(self, episode: Episode) -> list[Example]:
        """The sequences of one episode; empty if no turn of it can be trained."""
        turns = [self._with_ids(turn) for turn in episode.turns]
        prompts = [self._messages(episode, turns, number) for number in range(len(turns))]
        untrained = self._untrained(episode)
        examples: list[Example] = []
        row = _Row(self, examples)
        inline = self._inline()
        for number, turn in enumerate(turns):
            if not turn.response_ids:
                self.counts["no_response"] += 1
                continue
            messages = self._hinted(prompts[number], turns[: number + 1]) if inline else prompts[number]
            trained = turn.index not in untrained
            self.counts["trained" if trained else "untrained"] += 1
            row.add(messages, turn.response_ids, float(trained))
        if (reflection := episode.reflection) is not None and reflection.valid and reflection.response:
            # a conversation goes on with it; where its attempt was hinted, it begins anew
            self.counts["reflections"] += 1
            row.add(self._with_reply_ids(reflection.messages), self._encode(reflection.response), 1.0)
        row.finish()
        if self.hints == "separate" or (self.hints == "inline" and not inline):
            examples += self._separate(prompts, turns)
        return examples

    def _inline(self) -> bool:
        return (
            self.hints == "inline" and self.prompter is not None and self.prompter.settings.history == "chat"
        )

    def _separate(self, prompts: Sequence[tuple[Message, ...]], turns: Sequence[Turn]) -> list[Example]:
        """One sequence for each hinted turn, in which only its response counts."""
        if self.prompter is None:
            return []
        examples: list[Example] = []
        for messages, turn in zip(prompts, turns, strict=True):
            if turn.hint and turn.response_ids:
                prompt = self.renderer.prompt_ids(self.prompter.with_hint(messages, turn.hint))
                weights = [0.0] * len(prompt) + [1.0] * len(turn.response_ids)
                _keep((*prompt, *turn.response_ids), weights, examples)
                self.counts["hinted"] += 1
        return examples

    def _untrained(self, episode: Episode) -> Collection[int]:
        """Turns that are context only."""
        info = episode.info
        left_out = {turn.index for turn in episode.turns if turn.reused}
        left_out.update(info.get(SKIPPED_TURNS, ()))
        if not self.train_noise:
            left_out.update(info.get(NOISE_TURNS, ()))
        if not self._inline():
            left_out.update(info.get(DETOUR_TURNS, ()))
        return left_out

    def _with_ids(self, turn: Turn) -> Turn:
        text = turn.response
        if not text and self.prompter is not None and turn.executed:
            text = self.prompter.reply(turn.executed)
        return replace(turn, response=text, response_ids=self._encode(text, ended=not turn.truncated))

    def _encode(self, text: str, ended: bool = True) -> tuple[int, ...]:
        if not text:
            return ()
        ids = tuple(self.renderer.tokenizer.encode(text, add_special_tokens=False))
        end = self.renderer.end_of_turn_id
        return (*ids, end) if ended and end is not None else ids

    def _messages(self, episode: Episode, turns: Sequence[Turn], number: int) -> tuple[Message, ...]:
        """The unhinted prompt of a turn, earlier replies as tokens of this tokenizer."""
        turn = turns[number]
        complete = turns[0].index == 0
        if self.prompter is not None and complete:
            remarks = episode.attempt.remarks
            return self.prompter.messages(episode.task, turns[:number], turn.observation, remarks=remarks)
        if not turn.messages:
            raise ConfigError(
                f"turn {turn.index} of episode {episode.id} has no recorded messages and its prompt cannot be "
                "rebuilt; give a prompter and whole episodes, or episodes with messages"
            )
        return self._with_reply_ids(turn.messages)

    def _with_reply_ids(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Recorded messages with the replies as tokens of this tokenizer."""
        return tuple(
            replace(message, token_ids=self._encode(message.content) or None)
            if message.role == "assistant"
            else message
            for message in messages
        )

    def _hinted(self, messages: tuple[Message, ...], turns: Sequence[Turn]) -> tuple[Message, ...]:
        """``messages`` of a conversation with the hints of all its turns."""
        assert self.prompter is not None
        result = list(messages)
        asked = [at for at, message in enumerate(messages) if message.role == "user"]
        for at, turn in zip(asked, turns, strict=True):
            if turn.hint:
                (result[at],) = self.prompter.with_hint((messages[at],), turn.hint)
        return tuple(result)
