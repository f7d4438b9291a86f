"""A policy without a model: replies come from a script, log-probs from a checksum.

Sampling and scoring agree exactly, and log-probs depend on every token of the prompt, so tests of methods
and rollouts can check whole procedures without weights.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnpoint.policy import ContextOverflow, PolicyCapabilities, Sample, SampleRequest, ScoreRequest
from turnpoint.policy.protocol import Floats, Which
from turnpoint.records import Row

Script = Callable[[str, int], str]
"""(prompt text, seed of the call) -> reply."""

EOS = 3


class CharTokenizer:
    """One token for each character; enough of the Hugging Face interface for a renderer."""

    chat_template = "builtin"
    eos_token = chr(EOS)
    eos_token_id = EOS
    all_special_ids = (EOS,)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Code points."""
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Inverse of ``encode``."""
        return "".join(chr(i) for i in ids if not (skip_special_tokens and i == EOS))

    def apply_chat_template(
        self, messages: Sequence[dict[str, str]], *, add_generation_prompt: bool = True, **_: Any
    ) -> str:
        """``[role]content<eos>`` for each message."""
        body = "".join(f"[{m['role']}]{m['content']}{self.eos_token}" for m in messages)
        return body + ("[assistant]" if add_generation_prompt else "")


class ScriptedPolicy:
    """Implements ``Policy``; keeps what it was asked (``requests``) and trained on (``updates``)."""

    capabilities = PolicyCapabilities(reference=False, sessions=False, full_distribution=False)
    temperature = 1.0

    def __init__(self, script: Script, *, context_length: int = 100_000, batch: int | None = None) -> None:
        """``batch``: at most so many queued calls finish in one ``advance`` (None = all)."""
        self.script = script
        self.context_length = context_length
        self.tokenizer = CharTokenizer()
        self.eos_ids = frozenset({EOS})
        self.requests: list[SampleRequest] = []
        self.updates: list[list[Row]] = []
        self._batch = batch
        self._queue: list[tuple[int, SampleRequest]] = []

    def submit(self, request: SampleRequest) -> int:
        if len(request.prompt_ids) >= self.context_length:
            raise ContextOverflow(f"{len(request.prompt_ids)} prompt tokens do not fit {self.context_length}")
        self.requests.append(request)
        self._queue.append((len(self.requests), request))
        return len(self.requests)

    def advance(self) -> list[tuple[int, Sample]]:
        count = len(self._queue) if self._batch is None else self._batch
        ready, self._queue = self._queue[:count], self._queue[count:]
        return [(ticket, self._answer(request)) for ticket, request in ready]

    def _answer(self, request: SampleRequest) -> Sample:
        reply = self.script(self.tokenizer.decode(request.prompt_ids), request.seed)
        ids = (*self.tokenizer.encode(reply), EOS)[: request.sampling.max_tokens]
        logprobs = self._score(request.prompt_ids, ids)
        return Sample(ids, tuple(logprobs.tolist()), truncated=ids[-1] != EOS)

    def end_session(self, session: str) -> None:
        """There is no cache."""

    def forget_sessions(self) -> None:
        """There is no cache. Raises ``RuntimeError`` while calls are in flight, as engines do."""
        if self._queue:
            raise RuntimeError(f"{len(self._queue)} sampling calls are in flight")

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        return [self._score(request.prompt_ids, request.response_ids) for request in requests]

    def _score(self, prompt: Sequence[int], response: Sequence[int]) -> Floats:
        """-(checksum of version, prompt and response so far), between 0 and -2."""
        state = zlib.crc32(json.dumps([len(self.updates), *prompt]).encode())
        values = []
        for token in response:
            state = zlib.crc32(str(token).encode(), state)
            values.append(-(state % 2000) / 1000)
        return np.array(values)

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        self.forget_sessions()
        self.updates.append(list(rows))
        return {"rows": float(len(rows)), "grad_norm": 0.0}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "updates.json").write_text(json.dumps(len(self.updates)))

    def load(self, folder: Path) -> None:
        self.updates = [[] for _ in range(json.loads((folder / "updates.json").read_text()))]
