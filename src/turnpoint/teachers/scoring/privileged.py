"""The student itself as the scoring teacher: the weights being trained, with text in the prompt it did not see.

The text (a reference solution, a lesson, the gold action) comes from the data of each task. A turn whose task
has none scores exactly what the student sampled it with, so that its advantage is exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import Floats, ScoreRequest
from turnpoint.records import Episode, Task, Turn
from turnpoint.teachers.protocol import TeacherFailure, TurnScore
from turnpoint.teachers.scoring.batcher import Batcher
from turnpoint.teachers.scoring.counters import ScoringCounters
from turnpoint.teachers.scoring.registry import ScoringTeacherSettings, Student

_LOOK_AT = 256
"""Training tasks among which at least one must have the text."""


class PrivilegedScoringSettings(ScoringTeacherSettings):
    """The policy with privileged text."""

    kind: Literal["privileged"] = "privileged"
    key: str = Field(default="reference", min_length=1)
    """Entry of ``Task.data`` that holds the text; tasks without it give no signal."""
    place: Literal["lesson", "hint"] = "lesson"
    """After the task line in the wording of a lesson, or before the final line of the prompt in that of a hint."""
    batch: PositiveInt = 64
    """Episodes after which a batch does not wait for more to become ready."""

    def build(self, student: Student, section: str = "scoring") -> PrivilegedScoring:
        tasks = student.suite.tasks("train")
        if len(tasks) and not any(self.text(task) for task in islice(tasks, _LOOK_AT)):
            raise ConfigError(
                f"{section}.key is '{self.key}', but none of the first training tasks has such text in its data; "
                f"their data has {', '.join(sorted(tasks[0].data)) or 'nothing'}: set {section}.key to one of these"
            )
        return PrivilegedScoring(self, student)

    def text(self, task: Task) -> str:
        """The privileged text of a task; empty if it has none."""
        found = task.data.get(self.key)
        return found.strip() if isinstance(found, str) else ""


class PrivilegedScoring:
    """Scores the recorded responses under prompts with the text put in."""

    frozen = False
    remote = False

    def __init__(self, settings: PrivilegedScoringSettings, student: Student) -> None:
        self.settings = settings
        self.student = student
        self.counters = ScoringCounters()
        self._batcher: Batcher[list[ScoreRequest], list[Floats]] = Batcher(self._work, settings.batch)

    async def score(self, episode: Episode, turns: Sequence[Turn], first: int = 0) -> list[TurnScore]:
        text = self.settings.text(episode.task)
        self.counters.requests += 1
        if not text:
            # The student's own log-probs under the very same prompt: nothing to compute.
            return [
                TurnScore(
                    turn.index,
                    len(turn.prompt_ids) + first,
                    turn.response_ids[first:],
                    np.asarray(turn.logprobs[first:]),
                )
                for turn in turns
            ]
        requests = [self._request(episode, turn, text, first) for turn in turns]
        values = await self._batcher.do(f"{episode.id}#{turns[0].index:06d}", requests)
        self.counters.scored_tokens += sum(len(request.response_ids) for request in requests)
        return [
            TurnScore(turn.index, len(request.prompt_ids), request.response_ids, logprobs)
            for turn, request, logprobs in zip(turns, requests, values, strict=True)
        ]

    def _request(self, episode: Episode, turn: Turn, text: str, first: int) -> ScoreRequest:
        """The turn's response under the privileged prompt; never truncated. Raises ``TeacherError``."""
        prompter, policy = self.student.prompter, self.student.policy
        if self.settings.place == "hint":
            messages = prompter.with_hint(turn.messages, prompter.hint_text(text))
        else:
            messages = prompter.with_lesson(turn.messages, prompter.lesson_text(text))
        prompt = self.student.renderer.prompt_ids(messages)
        if len(prompt) + len(turn.response_ids) > policy.context_length:
            raise self.counters.fail(
                TeacherFailure.BUDGET,
                f"turn {turn.index} of episode {episode.id} has {len(prompt)} prompt tokens with the privileged text; "
                f"with its response they exceed the context length of {policy.context_length}",
            )
        return ScoreRequest((*prompt, *turn.response_ids[:first]), turn.response_ids[first:])

    def _work(self, jobs: list[list[ScoreRequest]]) -> list[list[Floats]]:
        requests = [request for job in jobs for request in job]
        values = iter(self.student.policy.logprobs(requests))
        self.counters.read_tokens += sum(len(r.prompt_ids) + len(r.response_ids) for r in requests)
        return [[next(values) for _ in job] for job in jobs]

    async def check(self) -> None:
        """Nothing to prove: the student can always be scored."""

    def metrics(self) -> dict[str, float]:
        return self.counters.as_metrics() | {"batches": float(self._batcher.batches)}

    async def close(self) -> None:
        """The student belongs to the run."""
