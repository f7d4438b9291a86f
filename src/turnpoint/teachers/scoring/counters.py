"""What a scoring teacher counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnpoint.policy.passages import Passage, merge_requests
from turnpoint.policy.protocol import Floats, ScoreRequest
from turnpoint.records import Turn
from turnpoint.teachers.protocol import TeacherError, TeacherFailure, TurnScore


@dataclass(slots=True)
class ScoringCounters:
    """Totals since the teacher was built."""

    requests: int = 0
    """Calls of ``score`` that were answered."""
    scored_tokens: int = 0
    read_tokens: int = 0
    """Tokens that the model really read; cached ones are not among them."""
    retries: int = 0
    failures: Counter[TeacherFailure] = field(default_factory=Counter)
    """Calls that ended in a ``TeacherError``, by reason."""

    def fail(self, reason: TeacherFailure, message: str) -> TeacherError:
        """Count a failure and give the error to raise."""
        self.failures[reason] += 1
        return TeacherError(reason, message)

    def as_metrics(self) -> dict[str, float]:
        """Flat numbers; every failure reason is present, so that curves have no gaps."""
        totals = {
            "requests": self.requests,
            "scored_tokens": self.scored_tokens,
            "read_tokens": self.read_tokens,
            "retries": self.retries,
        }
        failures = {f"failures/{reason.value}": self.failures[reason] for reason in TeacherFailure}
        return {name: float(value) for name, value in (totals | failures).items()}


def as_passages(turns: Sequence[Turn], first: int) -> list[Passage]:
    """What must be read to score ``turns``: turns whose prompts extend each other share one passage.

    ``first``: number of leading response tokens of each turn that need no score.
    """
    return merge_requests(
        [
            ScoreRequest((*turn.prompt_ids, *turn.response_ids[:first]), turn.response_ids[first:])
            for turn in turns
        ]
    )


def as_scores(
    turns: Sequence[Turn], passages: Sequence[Passage], values: Sequence[Sequence[Floats]]
) -> list[TurnScore]:
    """Scores of turns from those of the spans of their passages, in order."""
    flat = [
        (start, passage.ids[start:stop], logprobs)
        for passage, parts in zip(passages, values, strict=True)
        for (start, stop), logprobs in zip(passage.spans, parts, strict=True)
    ]
    return [
        TurnScore(turn.index, start, ids, logprobs)
        for turn, (start, ids, logprobs) in zip(turns, flat, strict=True)
    ]
