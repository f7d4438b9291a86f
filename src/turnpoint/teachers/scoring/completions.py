"""Log-probs of a prompt's own tokens, as servers give them, with every answer checked for alignment.

Four dialects: ``prompt_logprobs`` (vLLM) lists, for each position, log-probs by token id; ``sglang`` is SGLang's own
``/generate``, which gives (log-prob, id) for each position; ``echo`` (the old OpenAI completions) repeats the prompt's
tokens with one log-prob each; ``echo_text`` is the same for servers that take prompts as text only, such as
llama-cpp-python's: the text must be cut into the very tokens it came from. The first token of a prompt never has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from turnpoint.teachers import wire
from turnpoint.teachers.protocol import TeacherFailure

Dialect = Literal["prompt_logprobs", "sglang", "echo", "echo_text"]
_POSITIVE = 1e-3
"""Log-probs above this are none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """How a server is asked."""

    dialect: Dialect
    max_tokens: int
    """Tokens to generate beside: none where the server allows it."""

    @property
    def path(self) -> str:
        """Where to ask, from ``base_url``; ``//`` = from the server's root."""
        return "//generate" if self.dialect == "sglang" else "/completions"

    @property
    def by_text(self) -> bool:
        """Prompts are sent as text."""
        return self.dialect == "echo_text"

    def body(self, model: str, prompt: Sequence[int] | str) -> dict[str, Any]:
        """Request body for a prompt of token ids or of text."""
        given = prompt if isinstance(prompt, str) else list(prompt)
        if self.dialect == "sglang":
            return {
                "text" if isinstance(given, str) else "input_ids": given,
                "sampling_params": {"max_new_tokens": self.max_tokens, "temperature": 1.0},
                "return_logprob": True,
                "logprob_start_len": 0,
                "top_logprobs_num": 1,
            }
        body = {"model": model, "prompt": given, "max_tokens": self.max_tokens, "temperature": 1.0}
        if self.dialect == "prompt_logprobs":
            return body | {"prompt_logprobs": 1}
        return body | {"echo": True, "logprobs": 1}


WAYS = (
    Ask("prompt_logprobs", 1), Ask("sglang", 0), Ask("sglang", 1), Ask("echo", 0), Ask("echo", 1), Ask("echo_text", 1),
)  # fmt: skip
"""Ways to ask, in the order in which they are tried. llama-cpp-python takes 0 tokens for as many as fit, so text, which
others refuse, is tried with 1 alone."""


@dataclass(frozen=True, slots=True)
class PromptScores:
    """What a server says about the tokens of a prompt."""

    by_id: list[dict[int, float]] | None = None
    """Log-probs by token id at each position; the first is empty."""
    echoed: list[float | None] | None = None
    """One log-prob for each position, those of generated tokens included."""
    texts: list[str] | None = None
    """Of ``echo``: the tokens as text, where the server gives them."""
    best: list[float | None] | None = None
    """The highest log-prob at each position, where the server gives it."""
    prompt_tokens: int = 0
    """Tokens read and written, as the server counts them."""
    completion_tokens: int = 0

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
    """The scores in an answer. Raises ``CallFailed``."""
    wire.raise_for_status(response)
    try:
        data = response.json()
        found = data["meta_info"] if ask.dialect == "sglang" else data["choices"][0]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise wire.CallFailed(
            TeacherFailure.UNPARSABLE, f"not a completion: {response.text[:300]!r}", retry=True
        ) from error
    try:
        usage = found if ask.dialect == "sglang" else data.get("usage") or {}
        used = (wire.count(usage, "prompt_tokens"), wire.count(usage, "completion_tokens"))
        if ask.dialect == "sglang":
            return _of_sglang(found, used)
        if ask.dialect == "prompt_logprobs":
            by_id = [_by_id(entry) for entry in found["prompt_logprobs"]]
            best = [max(known.values(), default=None) for known in by_id]
            return PromptScores(by_id, None, None, best, *used)
        return _of_echo(found["logprobs"], used)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise wire.CallFailed(
            TeacherFailure.UNPARSABLE, f"the completion has no prompt log-probs ({ask.dialect})", retry=False
        ) from error


def _of_echo(found: Any, used: tuple[int, int]) -> PromptScores:
    echoed = [None if value is None else float(value) for value in found["token_logprobs"]]
    texts, tops = found.get("tokens"), found.get("top_logprobs")
    best = [max(top.values(), default=None) if top else None for top in tops] if tops else None
    return PromptScores(None, echoed, [str(text) for text in texts] if texts else None, best, *used)


def _of_sglang(found: Any, used: tuple[int, int]) -> PromptScores:
    """``[log-prob, id, text]`` for each position; the first log-prob is null."""
    by_id = [
        {} if value is None else {int(token): float(value)}
        for value, token, *_ in found["input_token_logprobs"]
    ]
    tops = found.get("input_top_logprobs")
    best = [max((entry[0] for entry in top or ()), default=None) for top in tops] if tops else None
    return PromptScores(by_id, None, None, best, *used)


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
