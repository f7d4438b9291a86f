"""Log-probs of a prompt's own tokens, as completion servers give them, with every answer checked for alignment.

Two dialects: ``prompt_logprobs`` (vLLM) lists, for each position, log-probs by token id; ``echo`` (the old OpenAI
completions) repeats the prompt's tokens with one log-prob each. The first token of a prompt never has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from turnpoint.teachers import wire
from turnpoint.teachers.protocol import TeacherFailure

Dialect = Literal["prompt_logprobs", "echo"]
_POSITIVE = 1e-3
"""Log-probs above this are none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """How a server is asked."""

    dialect: Dialect
    max_tokens: int
    """Tokens to generate beside: none where the server allows it."""

    def body(self, model: str, prompt: Sequence[int] | str) -> dict[str, Any]:
        """Request body for a prompt of token ids or of text."""
        given = prompt if isinstance(prompt, str) else list(prompt)
        body = {"model": model, "prompt": given, "max_tokens": self.max_tokens, "temperature": 1.0}
        if self.dialect == "echo":
            return body | {"echo": True, "logprobs": 1}
        return body | {"prompt_logprobs": 1}


WAYS = (Ask("prompt_logprobs", 1), Ask("echo", 0), Ask("echo", 1))
"""Ways to ask, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class PromptScores:
    """What a server says about the tokens of a prompt."""

    by_id: list[dict[int, float]] | None
    """Of ``prompt_logprobs``: log-probs by token id at each position; the first is empty."""
    echoed: list[float | None] | None
    """Of ``echo``: one log-prob for each position, those of generated tokens included."""
    texts: list[str] | None
    """Of ``echo``: the tokens as text, where the server gives them."""

    def of(self, ids: Sequence[int], ask: Ask) -> list[float | None]:
        """Log-prob of each of ``ids`` (the first has none). Raises ``CallFailed`` if the answer is not about them."""
        if self.by_id is not None:
            if len(self.by_id) != len(ids):
                raise _misaligned(f"{len(self.by_id)} positions came back for {len(ids)} tokens")
            values: list[float | None] = [None]
            for place, (token, known) in enumerate(zip(ids[1:], self.by_id[1:], strict=True), start=1):
                if token not in known:
                    raise _misaligned(f"position {place} has no log-prob of token {token}")
                values.append(known[token])
        else:
            assert self.echoed is not None
            if len(self.echoed) not in (len(ids), len(ids) + ask.max_tokens):
                raise _misaligned(f"{len(self.echoed)} log-probs came back for {len(ids)} tokens")
            values = self.echoed[: len(ids)]
        for place, value in enumerate(values[1:], start=1):
            if value is None or not -float("inf") < value <= _POSITIVE:
                raise _misaligned(f"the log-prob at position {place} is {value}")
        return values


def read_scores(response: httpx.Response, ask: Ask) -> PromptScores:
    """The scores in a completion. Raises ``CallFailed``."""
    wire.raise_for_status(response)
    try:
        choice = response.json()["choices"][0]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise wire.CallFailed(
            TeacherFailure.UNPARSABLE, f"not a completion: {response.text[:300]!r}", retry=True
        ) from error
    try:
        if ask.dialect == "prompt_logprobs":
            return PromptScores([_by_id(entry) for entry in choice["prompt_logprobs"]], None, None)
        found = choice["logprobs"]
        echoed = [None if value is None else float(value) for value in found["token_logprobs"]]
        texts = found.get("tokens")
        return PromptScores(None, echoed, [str(text) for text in texts] if texts else None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise wire.CallFailed(
            TeacherFailure.UNPARSABLE, f"the completion has no prompt log-probs ({ask.dialect})", retry=False
        ) from error


def _by_id(entry: Any) -> dict[int, float]:
    """One position: ``{"17": {"logprob": -0.1, …}}`` or ``{"17": -0.1}``; None for the first."""
    return {
        int(token): float(value["logprob"] if isinstance(value, dict) else value)
        for token, value in (entry or {}).items()
    }


def _misaligned(what: str) -> wire.CallFailed:
    return wire.CallFailed(
        TeacherFailure.UNPARSABLE, f"the answer does not fit the tokens that were sent: {what}", retry=False
    )


def same_text(ours: str, theirs: str) -> bool:
    """Whether a token's text at the server can be ours; fragments of characters and marks cannot be compared."""
    if (
        not theirs
        or "\ufffd" in ours
        or "\ufffd" in theirs
        or theirs.startswith(("bytes:", "<0x", "token_id:"))
    ):
        return True
    plain = [text.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n").strip() for text in (ours, theirs)]
    return plain[0] == plain[1]
