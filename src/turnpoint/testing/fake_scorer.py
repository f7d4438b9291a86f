"""Servers that score prompts, in the wire formats of the real ones, over a made-up causal model.

Each is a script for ``FakeEndpoint``: it answers what its namesake answers and refuses what that refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from turnpoint.testing.fake_endpoint import Request, Scripted

Server = Literal["vllm", "sglang", "openai", "llama_cpp_python", "llama_cpp", "chat"]
"""``openai``: completions with echo, as the first OpenAI models had; ``chat``: nothing but chat completions."""
GENERATE = "/generate"
"""SGLang's own path, to be named in ``FakeEndpoint(paths=...)``."""
_BEST_TOKEN = 1


def mix(ids: Sequence[int]) -> int:
    """A number that depends on every token and on their order."""
    state = 17
    for token in ids:
        state = (state * 1_000_003 + token * 7919 + 1) % 2_147_483_647
    return state


def logprob(prefix: Sequence[int], token: int) -> float:
    """Log-prob of ``token`` after ``prefix``; never that of the most likely token."""
    return -0.6 - float((mix(prefix) + token * 104_729) % 300) / 100


def best(prefix: Sequence[int]) -> float:
    """Log-prob of whatever is most likely after ``prefix``."""
    return -0.01 - float(mix(prefix) % 50) / 100


def scores(ids: Sequence[int]) -> list[float]:
    """Log-prob of each token given those before it, from the second on."""
    return [logprob(ids[:i], ids[i]) for i in range(1, len(ids))]


def characters(text: str) -> list[int]:
    """One token a character."""
    return [ord(character) for character in text]


@dataclass(slots=True)
class Scorer:
    """A server that scores, and how it fails."""

    server: Server = "vllm"
    cut: Callable[[str], list[int]] = characters
    """Its tokenizer."""
    text: bool = True
    """Whether prompts may be text."""
    zero_tokens: bool = True
    """Whether it can generate nothing."""
    shift: int = 0
    """Scores lie so many places early."""
    short: int = 0
    """Scores of so many last places are missing."""
    late: bool = False
    """Each score is taken after its own token, as llama-cpp-python does where the tokenizer adds no first token."""
    stale: float = 0.0
    """Added to scores of positions that an earlier prompt began with, as a stale prefix cache does."""
    usage: bool = True
    """Whether it says how many tokens were used."""
    _seen: list[list[int]] | None = None

    def __call__(self, request: Request) -> Scripted:
        """Answer a request, as a script."""
        body = request.body
        if self.server == "chat" or "messages" in body:
            return Scripted(f"no {request.path} here", status=404)
        if (request.path == GENERATE) != (self.server == "sglang"):
            return Scripted(f"no {request.path} here", status=404)
        prompt = body.get("prompt", body.get("input_ids", body.get("text")))
        refusal = self._refuses(prompt, body)
        if refusal is not None:
            return refusal
        ids = self.cut(prompt) if isinstance(prompt, str) else prompt
        values, tops = self._values(ids)
        return Scripted(body=self._answer(body, ids, values, tops))

    def _refuses(self, prompt: Any, body: dict[str, Any]) -> Scripted | None:
        asked = body.get("max_tokens", body.get("sampling_params", {}).get("max_new_tokens"))
        if self.server == "llama_cpp" and body.get("echo"):
            return Scripted("Only no echo is supported", status=500)
        if self.server == "llama_cpp_python" and not isinstance(prompt, str):
            return Scripted("Input should be a valid string", status=422)
        if isinstance(prompt, str) and not self.text:
            return Scripted("prompt must be token ids", status=400)
        if asked == 0 and not self.zero_tokens:
            return Scripted("max_tokens must be at least 1", status=400)
        return None

    def _values(self, ids: list[int]) -> tuple[list[float | None], list[float | None]]:
        """Scores and highest log-probs by position, with the server's faults."""
        places = range(1, len(ids))
        prefix = [ids[: i + 1] if self.late else ids[:i] for i in range(len(ids))]
        values: list[float | None] = [None, *(logprob(prefix[i], ids[i]) for i in places)]
        tops: list[float | None] = [None, *(best(prefix[i]) for i in places)]
        if self.shift:
            values = [None, *values[1 + self.shift :], *[-0.1] * self.shift]
        if self.stale:
            self._seen = self._seen or []
            known = max((_shared(ids, other) for other in self._seen), default=0)
            values = [v if v is None or i >= known else v + self.stale for i, v in enumerate(values)]
            self._seen.append(list(ids))
        keep = len(values) - self.short
        return values[:keep], tops[:keep]

    def _answer(
        self, body: dict[str, Any], ids: list[int], values: list[float | None], tops: list[float | None]
    ) -> dict[str, Any]:
        if self.server == "sglang":
            return self._of_sglang(body, ids, values, tops)
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length"}
        if self.server == "vllm" and body.get("prompt_logprobs") is not None:
            named = ids[self.shift :] + ids[: self.shift]
            choice["prompt_logprobs"] = [
                None if v is None else {str(t): {"logprob": v}, f"{_BEST_TOKEN}": {"logprob": top}}
                for t, v, top in zip(named, values, tops, strict=False)
            ]
        if self.server in ("openai", "llama_cpp_python") and body.get("echo"):
            generated = body["max_tokens"]
            choice["logprobs"] = {
                "token_logprobs": [*values, *[-0.5] * generated],
                "top_logprobs": [
                    *({"x": t} if t is not None else None for t in tops),
                    *[{"x": -0.5}] * generated,
                ],
                "tokens": [*(chr(i) for i in ids), *["?"] * generated],
            }
        answer: dict[str, Any] = {"object": "text_completion", "choices": [choice]}
        used = {"prompt_tokens": len(ids), "completion_tokens": body["max_tokens"]}
        return answer | ({"usage": used} if self.usage else {})

    def _of_sglang(
        self, body: dict[str, Any], ids: list[int], values: list[float | None], tops: list[float | None]
    ) -> dict[str, Any]:
        written = body["sampling_params"]["max_new_tokens"]
        meta: dict[str, Any] = {"prompt_tokens": len(ids), "completion_tokens": written}
        if body.get("return_logprob") and body.get("logprob_start_len") == 0:
            meta["input_token_logprobs"] = [[v, t, None] for v, t in zip(values, ids, strict=False)]
            if body.get("top_logprobs_num"):
                meta["input_top_logprobs"] = [None if t is None else [[t, _BEST_TOKEN, None]] for t in tops]
        return {"text": "", "meta_info": meta}

    def changed(self, **faults: Any) -> Scorer:
        """The same server with other faults."""
        return replace(self, **faults)


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common start."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
