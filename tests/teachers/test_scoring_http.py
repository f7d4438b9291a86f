"""The HTTP scoring teacher against servers that return prompt log-probs, in two dialects, well and badly."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.stride import StrideSettings
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.teachers import TeacherError, TeacherFailure
from turnpoint.teachers.scoring import Student, scoring_registry
from turnpoint.teachers.scoring.http import HttpScoring, HttpScoringSettings
from turnpoint.testing import FakeEndpoint, Request, Scripted, toy_suite
from turnpoint.testing.fake_scorer import GENERATE, Scorer, scores
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import CharTokenizer, ScriptedPolicy

TOKENIZER = CharTokenizer()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def build(endpoint: FakeEndpoint, **settings: Any) -> HttpScoring:
    data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, "timeout": 5.0} | settings
    return HttpScoring(HttpScoringSettings.model_validate(data), TOKENIZER)


def check(script: Any, **settings: Any) -> HttpScoring:
    with FakeEndpoint(script, paths=[GENERATE]) as endpoint:
        teacher = build(endpoint, **settings)
        asyncio.run(teacher.check())
        return teacher


@pytest.mark.parametrize(
    ("script", "way"),
    [
        (Scorer("vllm"), ("prompt_logprobs", 1)),
        (Scorer("sglang"), ("sglang", 0)),
        (Scorer("openai"), ("echo", 0)),
        (Scorer("openai", zero_tokens=False), ("echo", 1)),
        (Scorer("llama_cpp_python"), ("echo_text", 1)),
    ],
)
def test_the_way_a_server_answers_is_found(script: Scorer, way: tuple[str, int]) -> None:
    teacher = check(script)
    assert teacher._ask is not None
    assert (teacher._ask.dialect, teacher._ask.max_tokens) == way
    assert teacher.notes == [
        f"log-probs of prompt tokens by {way[0]}",
        "asked again they differ by 0 nats",
        "its tokenizer cuts texts as the student's does",
    ]
    assert teacher.spending.prompt_tokens > 100


@pytest.mark.parametrize(
    ("script", "settings", "message"),
    [
        (Scorer("chat"), {}, r"no log-probs of prompt tokens.*only chats can still name actions"),
        (
            Scorer("llama_cpp"),
            {},
            r"Only no echo is supported.*llama-server and commercial chat endpoints give none",
        ),
        (Scorer("openai"), {"dialect": "prompt_logprobs"}, "returns no log-probs"),
        (Scorer("openai", short=2), {}, "log-probs came back for"),
        (Scorer("sglang", short=2), {}, "positions came back for"),
        (Scorer("openai", shift=1), {}, "do not lie where their tokens lie"),
        (Scorer("vllm", shift=1), {}, "has no log-prob of token"),
        (Scorer("llama_cpp_python", late=True), {}, "each was taken one place late"),
        (Scorer("vllm", late=True), {}, "each was taken one place late"),
        (Scorer("sglang", late=True), {}, "each was taken one place late"),
        (
            Scorer("vllm", stale=-0.5),
            {},
            r"other log-probs when it was asked again.*--no-enable-prefix-caching",
        ),
        (Scorer("openai", cut=lambda text: [len(w) for w in text.split(" ")]), {}, "another tokenizer"),
        (Scorer("openai", cut=lambda text: [ord(c) + 1 for c in text]), {}, "another tokenizer"),
        (Scorer("vllm", cut=lambda text: [ord(c) + 1 for c in text]), {}, "another tokenizer"),
        (Scorer("sglang", cut=lambda text: [ord(c) + 1 for c in text]), {}, "another tokenizer"),
        (Scorer("openai", text=False), {}, r"set scoring\.tokenizer"),
        (Scorer("openai"), {"model": "fake-modle"}, r"scoring\.model is 'fake-modle'.*did you mean"),
        ([Scripted("closed", status=401)], {}, "returns no log-probs.*closed"),
        ([Scripted("down", status=503)], {"retries": 1}, "does not work.*down"),
    ],
)
def test_what_a_server_lacks_is_said_before_the_run(script: Any, settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(script, **settings)


def episodes_of(teacher: Any, settings: Any, **changes: Any):
    """One step of a method with this teacher."""
    from turnpoint.methods import Teachers

    suite = toy_suite(max_turns=4)
    rollouts, scorer = make_rollouts(suite, ScriptedPolicy(random_agent()))
    method, teachers = settings.build(), Teachers(scoring={"": teacher})

    async def go():
        await teacher.check()
        groups = await method.collect(suite.tasks("train")[:2], rollouts, teachers)
        rows = await method.credit(groups, scorer, teachers)
        await teacher.close()
        return groups, rows

    groups, rows = asyncio.run(go())
    return [e for g in groups for e in g.episodes], rows, method.tally.take()


@pytest.mark.parametrize("server", ["vllm", "sglang", "openai", "llama_cpp_python"])
def test_scores_lie_where_the_tokens_lie(server: Any) -> None:
    with FakeEndpoint(Scorer(server), paths=[GENERATE]) as endpoint:
        _, rows, _ = episodes_of(build(endpoint), OPDSettings())
    assert rows
    for row in rows:
        expected = scores([*row.prompt_ids, *row.response_ids])[len(row.prompt_ids) - 1 :]
        np.testing.assert_allclose(row.advantages, np.array(expected) - row.old_logprobs, atol=1e-12)


def scoring_requests(endpoint: FakeEndpoint) -> list[Request]:
    """Requests beyond those of the check (which are shorter than any prompt)."""
    return [r for r in endpoint.requests if len(r.body["prompt"]) > 200]


def test_an_episode_is_sent_once_and_with_early_stopping_once_per_turn() -> None:
    with FakeEndpoint(Scorer()) as endpoint:
        episodes, _, _ = episodes_of(build(endpoint), OPDSettings())
        assert len(scoring_requests(endpoint)) == len(episodes)
    with FakeEndpoint(Scorer()) as endpoint:
        settings = StrideSettings(stop={"lambda": -1e6}, restart=None)
        episodes, _, tally = episodes_of(build(endpoint), settings)
        assert len(scoring_requests(endpoint)) == sum(len(e.turns) for e in episodes)
        assert tally["scored_tokens"] == sum(e.generated_tokens for e in episodes)


def test_trouble_is_retried_and_then_typed() -> None:
    good, calls = Scorer(), []

    def flaky(request: Request) -> Scripted:
        calls.append(request)
        return Scripted("busy", status=503) if len(calls) % 2 else good(request)

    with FakeEndpoint(flaky) as endpoint:
        teacher = build(endpoint)
        _, rows, _ = episodes_of(teacher, OPDSettings())
        assert rows
        assert teacher.metrics()["retries"] == len(calls) / 2
        assert not teacher.counters.failures


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Scripted("too long", status=400), TeacherFailure.REFUSED),
        (Scripted(behaviour="hang"), TeacherFailure.TIME_OUT),
        (Scripted(behaviour="garbage"), TeacherFailure.UNPARSABLE),
        (
            Scripted(body={"choices": [{"logprobs": {"token_logprobs": [None, -1.0]}}]}),
            TeacherFailure.UNPARSABLE,
        ),
    ],
)
def test_lasting_failures_cost_the_turns_and_name_them(answer, reason) -> None:
    good = Scorer()

    def fails_later(request: Request) -> Scripted:
        return answer if len(request.body["prompt"]) > 200 else good(request)

    with FakeEndpoint(fails_later) as endpoint:
        teacher = build(endpoint, retries=0, timeout=0.5 if answer.behaviour == "hang" else 5.0)
        episodes, rows, tally = episodes_of(teacher, OPDSettings())
        assert rows == []
        assert tally[f"teacher_failures/{reason}"] == len(episodes)
        assert teacher.metrics()[f"failures/{reason}"] == len(episodes)

        async def once():
            return await teacher.score(episodes[0], episodes[0].turns[:1])

        with pytest.raises(TeacherError, match=rf"episode {episodes[0].id}, turn 0"):
            asyncio.run(once())


def test_too_long_episodes_are_not_sent() -> None:
    with FakeEndpoint(Scorer()) as endpoint:
        episodes, _, tally = episodes_of(build(endpoint, context_length=210), OPDSettings())
        assert tally["teacher_failures/budget"] == len(episodes)
        assert scoring_requests(endpoint) == []


def test_a_closed_vocabulary_that_knows_no_probe_can_be_proved() -> None:
    class Closed(CharTokenizer):
        vocab_size = 12

        def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
            return [1] * len(text.split())

    with FakeEndpoint(Scorer("vllm", cut=Closed().encode)) as endpoint:
        settings = {"base_url": endpoint.url, "model": "fake-model"}
        asyncio.run(HttpScoring(HttpScoringSettings.model_validate(settings), Closed()).check())


def test_settings() -> None:
    suite = toy_suite()
    policy = ScriptedPolicy(random_agent())
    student = Student(
        policy, Prompter(PromptSettings(), suite.instructions), ChatRenderer(policy.tokenizer), suite
    )
    data = {"kind": "http", "base_url": "http://localhost:1/v1", "model": "m"}
    assert isinstance(scoring_registry.parse(data).build(student), HttpScoring)
    for wrong in ({"base_url": "localhost"}, {"extra_body": {"echo": False}}, {"dialekt": "echo"}):
        with pytest.raises(ValueError):
            scoring_registry.parse(data | wrong)
    with pytest.raises(ConfigError, match=r"scoring\.shop\.api_key_env"):
        scoring_registry.parse(data | {"api_key_env": "NO_SUCH_KEY_HERE"}).build(student, "scoring.shop")
