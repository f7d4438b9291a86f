"""What is proved about a scoring server before a run, by asking it a few short prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.teachers import wire
from turnpoint.teachers.endpoint import Endpoint
from turnpoint.teachers.protocol import TeacherFailure
from turnpoint.teachers.scoring.completions import WAYS, Ask, PromptScores, same_text
from turnpoint.teachers.scoring.tokenizers import PROBES

NOISE = 0.1
"""Differences between two answers about the same tokens that low precision may cause, in nats."""
_OVERLOADED = (429, 502, 503, 504)
Request = Callable[[Ask, Sequence[int] | str], Awaitable[PromptScores]]
"""Asks the server once."""


class Proofs:
    """Asks a server and says in a sentence what it lacks."""

    def __init__(self, endpoint: Endpoint, section: str, tokenizer: Any, request: Request) -> None:
        self._endpoint, self._section, self._tokenizer, self._request = endpoint, section, tokenizer, request
        self.notes: list[str] = []
        """What was found out."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text alone."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    async def way(self, dialect: str) -> Ask:
        """The first way of asking that returns a log-prob for every token of a known prompt."""
        ids, faults = self.encode(PROBES[1]), dict[str, None]()
        for ask in WAYS:
            if dialect not in ("auto", ask.dialect):
                continue
            try:
                (await self._request(ask, ids)).of(ids, ask)
                self.notes = [f"log-probs of prompt tokens by {ask.dialect}"]
                return ask
            except wire.CallFailed as failure:
                broken = failure.reason in (TeacherFailure.TIME_OUT, TeacherFailure.UNREACHABLE)
                if broken and (failure.status is None or failure.status in _OVERLOADED):
                    raise self._endpoint.broken(failure) from None
                faults[f"{ask.dialect}: {failure}"] = None
        raise ConfigError(
            f"{self._section}: the endpoint returns no log-probs of prompt tokens, which scoring needs "
            f"({'; '.join(faults)}). {self._who_does()}, or use {self._section}.kind: local. An endpoint that "
            "only chats "
            "can still name actions: teacher.kind: http"
        )

    def _who_does(self) -> str:
        return (
            "Serve the model with vLLM (prompt_logprobs), SGLang (/generate) or llama-cpp-python's server with "
            "--logits_all "
            "true (llama.cpp's own llama-server and commercial chat endpoints give none)"
        )

    async def alignment(self, ask: Ask) -> None:
        """Changing the last token must change the last log-prob and no other, and not what was likely there."""
        first = self.encode(PROBES[0])
        size = max(getattr(self._tokenizer, "vocab_size", 0), first[-1] + 1, 2)
        nearby = [
            (first[-1] + step) % size for step in (1, 7, 101)
        ]  # for vocabularies without the probes' words
        others = dict.fromkeys([*self.encode(PROBES[1]), *nearby])
        lasts = [token for token in others if token != first[-1]][:4]
        base = await self._ask(ask, first)
        again = await self._ask(ask, first)
        self._refuse_stale(max(_gaps(base.of(first, ask), again.of(first, ask))))
        moved, tops = [], []
        for last in lasts:
            changed = [*first[:-1], last]
            answer = await self._ask(ask, changed)
            moved.append(_gaps(base.of(first, ask), answer.of(changed, ask)))
            tops.append(_gap(_top(base, len(first)), _top(answer, len(first))))
        if any(max(row[:-1], default=0.0) > NOISE for row in moved) or all(row[-1] < NOISE for row in moved):
            raise ConfigError(
                f"{self._section}: the endpoint's log-probs do not lie where their tokens lie (changing the last "
                "token of a prompt changed others, or nothing); use another server or dialect"
            )
        if max(tops) > NOISE:
            raise ConfigError(
                f"{self._section}: the endpoint's log-probs do not lie where their tokens lie: what is most "
                "likely at the "
                "last place depends on the token that stands there, so each was taken one place late "
                "(llama-cpp-python does so with models whose tokenizer adds no token at the start); use another server"
            )

    async def repetition(self, ask: Ask) -> list[float]:
        """The same prompt, asked again and as the start of a longer one, has the same log-probs; gives them.

        What a server keeps of prompts may be stale, or may leave cached positions out.
        """
        start, whole = self.encode(PROBES[7]), [*self.encode(PROBES[7]), *self.encode(PROBES[8])]
        first = (await self._ask(ask, start)).of(start, ask)
        again = (await self._ask(ask, start)).of(start, ask)
        longer = (await self._ask(ask, whole)).of(whole, ask)[: len(start)]
        last = (await self._ask(ask, start)).of(start, ask)
        gap = max(max(_gaps(first, other)) for other in (again, longer, last))
        self._refuse_stale(gap)
        self.notes.append(f"asked again they differ by {gap:.2g} nats")
        return [value or 0.0 for value in first]

    def _refuse_stale(self, gap: float) -> None:
        if gap > NOISE:
            raise ConfigError(
                f"{self._section}: the endpoint gave the same tokens other log-probs when it was asked again (by "
                "up to "
                f"{gap:.2g} nats): what it keeps of earlier prompts is stale, or its precision too low; serve the "
                "model "
                "without prefix caching (vLLM: --no-enable-prefix-caching, SGLang: --disable-radix-cache) or with "
                "a wider "
                "data type"
            )

    async def _ask(self, ask: Ask, ids: Sequence[int]) -> PromptScores:
        try:
            scores = await self._request(ask, ids)
            scores.of(ids, ask)
            return scores
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None

    async def tokenizer(self, ask: Ask) -> None:
        """The server must cut probe texts into our tokens."""
        for text in PROBES:
            try:
                scores = await self._request(ask, text)
            except wire.CallFailed as failure:
                raise ConfigError(
                    f"{self._section}: the endpoint does not score text, so its tokenizer cannot be compared with the "
                    f"student's ({failure}); set {self._section}.tokenizer to the folder of its tokenizer"
                ) from None
            ours = [self.encode(text), list(self._tokenizer.encode(text))]
            if not any(self._is_cut(scores, ids, ask) for ids in ours):
                raise ConfigError(
                    f"{self._section} has another tokenizer than the student: the endpoint cuts {text!r} into other "
                    f"tokens than the student's {len(ours[0])}. A scoring teacher must read the student's own tokens: "
                    "serve a model of the same family and version"
                )
        self.notes.append("its tokenizer cuts texts as the student's does")

    def _is_cut(self, scores: PromptScores, ids: Sequence[int], ask: Ask) -> bool:
        """Whether a text was scored as exactly these tokens, as far as the server tells."""
        try:
            scores.of(ids, ask)
        except wire.CallFailed:
            return False
        texts = scores.texts or []
        return all(same_text(self._tokenizer.decode([i]), text) for i, text in zip(ids, texts, strict=False))


def _gaps(a: Sequence[float | None], b: Sequence[float | None]) -> list[float]:
    return [abs((x or 0.0) - (y or 0.0)) for x, y in zip(a, b, strict=True)]


def _top(scores: PromptScores, length: int) -> float | None:
    """The highest log-prob at the last of ``length`` places."""
    return scores.best[length - 1] if scores.best and len(scores.best) >= length else None


def _gap(a: float | None, b: float | None) -> float:
    return 0.0 if a is None or b is None else abs(a - b)
