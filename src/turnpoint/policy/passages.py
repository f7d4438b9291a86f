"""What a scorer reads: token sequences and the places in them whose log-probs are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnpoint.policy.protocol import ScoreRequest


@dataclass(frozen=True, slots=True)
class Passage:
    """One token sequence; ``spans`` are (first, one past the last) positions to score, each at least 1, in order."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def merge_requests(requests: Sequence[ScoreRequest]) -> list[Passage]:
    """Requests in order, those whose prompt extends the sequence before them in one passage with it.

    The spans of all passages, one after another, are the responses in the order of ``requests``.
    """
    passages: list[Passage] = []
    for request in requests:
        prompt, ids = request.prompt_ids, (*request.prompt_ids, *request.response_ids)
        span = (len(prompt), len(ids))
        if passages and prompt[: len(passages[-1].ids)] == passages[-1].ids:
            passages[-1] = Passage(ids, (*passages[-1].spans, span))
        else:
            passages.append(Passage(ids, (span,)))
    return passages
