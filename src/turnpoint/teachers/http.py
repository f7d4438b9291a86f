"""Any OpenAI-compatible chat endpoint as the naming teacher."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt, field_validator

from turnpoint.config import ConfigError
from turnpoint.envs.protocol import EnvSuite
from turnpoint.records import Message
from turnpoint.teachers import wire
from turnpoint.teachers.cache import key_of
from turnpoint.teachers.chat import ChatTeacher, ChatTeacherSettings
from turnpoint.teachers.endpoint import Endpoint, EndpointSettings, refuse_fields
from turnpoint.teachers.formats import ReplyFormat, fields, form_of, with_line, written
from turnpoint.teachers.probe import TURNS, probe_messages, read_probe
from turnpoint.teachers.protocol import Complete, TeacherFailure

PATH = "/chat/completions"
_FIXED = {"model", "messages", "temperature", "max_tokens", "stream", "n"}
_SHOWN = 200


class HttpTeacherSettings(EndpointSettings, ChatTeacherSettings):
    """A chat model behind an OpenAI-compatible endpoint (``POST <base_url>/chat/completions``)."""

    kind: Literal["http"] = "http"
    temperature: NonNegativeFloat | None = 0.0
    """Sampling temperature; None = the endpoint's default (some models accept no other)."""
    max_tokens: PositiveInt | None = 2048
    """Longest reply; None = not sent (some models take another name for it, see ``extra_body``)."""
    reply_format: ReplyFormat = "text"
    """How the form of answers is kept: ``text`` leaves it to the model; ``json_object``, ``json_schema`` and ``tool``
    ask for JSON through the fields of that name that endpoints have."""
    probe: Literal["report", "reach"] = "report"
    """What is tried before a run: ``report`` asks for one small report and reads it (about 500 tokens); ``reach`` only
    that the endpoint serves the model."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, for example ``{"seed": 1}``."""

    @field_validator("extra_body")
    @classmethod
    def _no_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        return refuse_fields(body, _FIXED)

    def build(self, suite: EnvSuite, complete: Complete | None = None) -> HttpTeacher:
        return HttpTeacher(self, suite.instructions)


class HttpTeacher(ChatTeacher):
    """Sends questions to the endpoint, patiently; safe to use from several event loops, one after another."""

    remote = True

    def __init__(self, settings: HttpTeacherSettings, instructions: str = "") -> None:
        super().__init__(settings, instructions)
        self.settings = settings
        self._endpoint = Endpoint(settings, "teacher", self._count_retry)
        self.spending = self._endpoint.spending
        """Tokens and cost of the run."""
        self.notes: list[str] = []
        """What the check found out about the endpoint."""
        self._asked: Counter[str] = Counter()
        """How often each question was asked, where the endpoint samples its answers."""

    @property
    def label(self) -> str:
        """Kind and model."""
        return f"http:{self.settings.model}"

    @property
    def varies(self) -> bool:
        """Whether the endpoint samples; without a temperature of ours it does as its default says."""
        return self.settings.temperature != 0

    def _count_retry(self) -> None:
        self.counters.retries += 1

    async def complete(self, messages: Sequence[Message]) -> str:
        """One answer: from the cache if it is there, else from the endpoint, within the budget."""
        cache, body = self._endpoint.cache, self._body(messages)
        if cache is None:
            return self._text(messages, await self._buy(body))
        key = self._key(body)
        known = cache.get(key)
        if known is not None:
            text, *used = json.loads(known)
            self.spending.spare(*used)
            return str(text)
        reply = await self._buy(body)
        text = self._text(messages, reply)
        cache.put(key, json.dumps([text, reply.prompt_tokens, reply.completion_tokens]).encode())
        return text

    async def _buy(self, body: dict[str, Any]) -> wire.Reply:
        """One answer of the endpoint. Raises ``TeacherError``."""
        counters = self.counters
        refusal = self.spending.refusal()
        if refusal is not None:
            raise counters.fail(TeacherFailure.BUDGET, refusal)
        try:
            reply = await self._call(body)
        except wire.CallFailed as failure:
            raise counters.fail(failure.reason, str(failure)) from None
        if reply.refusal is not None:
            raise counters.fail(TeacherFailure.REFUSED, f"the model declined: {reply.refusal[:_SHOWN]}")
        return reply

    async def _call(self, body: dict[str, Any]) -> wire.Reply:
        """One counted call. Raises ``wire.CallFailed``."""
        reply = await self._endpoint.call(PATH, body, wire.read_reply)
        self.counters.requests += 1
        self.counters.prompt_tokens += reply.prompt_tokens
        self.counters.completion_tokens += reply.completion_tokens
        self.spending.add(reply.prompt_tokens, reply.completion_tokens)
        return reply

    def _text(self, messages: Sequence[Message], reply: wire.Reply) -> str:
        """The answer in the written form."""
        form = None if self.settings.reply_format == "text" else form_of(messages)
        given = reply.text if reply.arguments is None else reply.arguments
        return reply.text if form is None else written(given, form)

    def _key(self, body: dict[str, Any]) -> bytes:
        """Key of an answer. Sampled answers differ: each time a question is asked has an answer of its own."""
        place: tuple[int, int] = (0, 0)
        if self.varies and "seed" not in body:
            question = key_of("question", {}, [body, self.number]).hex()[:16]
            place = (self.number, self._asked[question])
            self._asked[question] += 1
        return key_of("naming with usage", self._endpoint.identity, [body, place])

    def state_dict(self) -> dict[str, Any]:
        """The account of the run and, with a cache of sampled answers, how often each question was asked."""
        return {**self.spending.state_dict(), "asked": dict(self._asked)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the run was interrupted."""
        self.spending.load_state_dict(state)
        self._asked.update(state["asked"])

    def _body(self, messages: Sequence[Message]) -> dict[str, Any]:
        settings = self.settings
        form = None if settings.reply_format == "text" else form_of(messages)
        asked = list(messages) if form is None else with_line(messages, form)
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": m.role, "content": wire.sendable(m.content)} for m in asked],
        }
        if settings.max_tokens is not None:
            body["max_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if form is not None:
            body |= fields(form, settings.reply_format)
        body |= settings.extra_body
        if self.number and isinstance(body.get("seed"), int):
            body["seed"] += self.number  # the endpoint would repeat its answer
        return body

    # ---- proofs before the run ------------------------------------------------------------------

    async def check(self) -> None:
        """Look the model up at the endpoint and ask it for a small report, or for a token where it is only to be
        reached and lists no models. Raises ``ConfigError``."""
        self.notes = []
        try:
            known = await self._endpoint.models()
            self._endpoint.refuse_unknown_model(known)
            if self.settings.probe == "report":
                await self._prove_form()
            elif known is None:
                await self._call(self._body([Message("user", "Reply with: ok")]) | {"max_tokens": 1})
        except wire.CallFailed as failure:
            raise self._endpoint.broken(failure) from None

    async def _prove_form(self) -> None:
        """The endpoint answers in the form that reports are read in, and says what was used where that counts."""
        question = probe_messages()
        reply = await self._call(self._body(question))
        text, how = self._text(question, reply), self.settings.reply_format
        report = read_probe(text)
        if report is None:
            raise ConfigError(
                f"teacher.model '{self.settings.model}' does not answer in the form of a report (reply_format "
                f"{how}): it "
                f"said {text[:_SHOWN]!r}{_why(reply)}; try another teacher.reply_format (json_schema, "
                "json_object, tool), "
                "a more capable model, or teacher.probe=reach to go on regardless"
            )
        if self.spending.counted and not reply.prompt_tokens:
            raise ConfigError(
                f"teacher.budget or teacher.price is set, but {self.settings.base_url} does not say how many "
                "tokens were "
                "used (it sends no usage); remove both, or use an endpoint that does"
            )
        named = ", ".join(f"turn {c.turn} of {TURNS}: {c.action}" for c in report.candidates) or "no turn"
        self.notes = [f"answers in the form of a report ({how}), naming {named}"]

    def metrics(self) -> dict[str, float]:
        """Totals since the teacher was built."""
        cache = self._endpoint.cache
        cached = {"cached_requests": float(cache.counts["hits"])} if cache is not None else {}
        return self.counters.as_metrics() | self._endpoint.metrics() | cached

    async def close(self) -> None:
        await self._endpoint.close()


def _why(reply: wire.Reply) -> str:
    """What probably kept a reply from being whole."""
    return " and was cut at teacher.max_tokens, which reasoning counts against: raise it" if reply.cut else ""
