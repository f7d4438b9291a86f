"""The HTTP teacher against an endpoint that behaves as badly as real ones do."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.records import Message
from turnpoint.teachers import Situation, TeacherError, TeacherFailure, teacher_registry
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.protocol import KeepsState
from turnpoint.testing import FakeEndpoint, Request, Scripted, play_actions, toy_suite
from turnpoint.testing.fake_endpoint import Script

ASK = (Message("user", "what now?"),)
OVERLOADED = Scripted("slow down", status=429)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def build(endpoint: FakeEndpoint, **settings: Any) -> HttpTeacher:
    data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, "timeout": 5.0} | settings
    return HttpTeacher(HttpTeacherSettings.model_validate(data))


def ask(script: Script, **settings: Any) -> tuple[str | TeacherError, HttpTeacher, FakeEndpoint]:
    """Answer or error of one call."""
    with FakeEndpoint(script) as endpoint:
        teacher = build(endpoint, **settings)

        async def call() -> str | TeacherError:
            try:
                return await teacher.complete(ASK)
            except TeacherError as error:
                return error
            finally:
                await teacher.close()

        return asyncio.run(call()), teacher, endpoint


def test_request_and_reply() -> None:
    answer, teacher, endpoint = ask(["look around"], temperature=0.3, max_tokens=7, extra_body={"seed": 1})
    assert answer == "look around"
    assert endpoint.requests[0].body == {
        "model": "fake-model",
        "messages": [{"role": "user", "content": "what now?"}],
        "temperature": 0.3,
        "max_tokens": 7,
        "seed": 1,
    }
    assert "authorization" not in endpoint.requests[0].headers
    metrics = teacher.metrics()
    assert (metrics["requests"], metrics["prompt_tokens"], metrics["completion_tokens"]) == (1, 2, 2)


def test_draws_shift_the_seed_and_share_the_counts() -> None:
    with FakeEndpoint(["a", "b", "c"]) as endpoint:
        teacher = build(endpoint, temperature=0.7, extra_body={"seed": 5})
        assert teacher.varies

        async def call() -> None:
            for number in range(3):
                await teacher.draw(number).complete(ASK)
            await teacher.close()

        asyncio.run(call())
        assert [request.body["seed"] for request in endpoint.requests] == [5, 6, 7]
        assert teacher.metrics()["requests"] == 3
        assert not build(endpoint, temperature=0.0).varies
        assert build(endpoint, temperature=None).varies


def test_fields_that_some_models_refuse_can_be_left_out() -> None:
    _, _, endpoint = ask(["ok"], temperature=None, max_tokens=None, extra_body={"max_completion_tokens": 9})
    assert set(endpoint.requests[0].body) == {"model", "messages", "max_completion_tokens"}


@pytest.mark.parametrize(
    "trouble",
    [
        OVERLOADED,
        Scripted("later", status=429, headers={"Retry-After": "0"}),
        Scripted("oops", status=500),
        Scripted("busy", status=503),
        Scripted(behaviour="garbage"),
        Scripted(behaviour="half_close"),
        Scripted(behaviour="reset"),
        Scripted(body={"choices": []}),
        Scripted(body=[1, 2]),
        Scripted(body={"choices": [{"message": {"content": 7}}]}),
    ],
)
def test_passing_trouble_is_retried(trouble: Scripted) -> None:
    answer, teacher, endpoint = ask([trouble, trouble, "fine"])
    assert answer == "fine"
    assert len(endpoint.requests) == 3
    assert teacher.metrics()["retries"] == 2
    assert not teacher.counters.failures


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (OVERLOADED, TeacherFailure.UNREACHABLE),
        (Scripted("oops", status=500), TeacherFailure.UNREACHABLE),
        (Scripted(behaviour="half_close"), TeacherFailure.UNREACHABLE),
        (Scripted(behaviour="garbage"), TeacherFailure.UNPARSABLE),
        (Scripted(behaviour="hang"), TeacherFailure.TIME_OUT),
    ],
)
def test_lasting_trouble_ends_typed_after_the_retries(trouble: Scripted, reason: TeacherFailure) -> None:
    answer, teacher, _ = ask([trouble], retries=2, timeout=0.1 if trouble.behaviour == "hang" else 5.0)
    assert isinstance(answer, TeacherError)
    assert answer.reason is reason
    # Not the endpoint's count: a request that is given up need not have reached its thread.
    assert teacher.metrics()["retries"] == 2
    assert teacher.metrics()[f"failures/{reason.value}"] == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_refusals_are_not_retried(status: int) -> None:
    answer, _, endpoint = ask([Scripted("no such thing", status=status)])
    assert isinstance(answer, TeacherError)
    assert answer.reason is TeacherFailure.REFUSED
    assert "no such thing" in str(answer)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": None, "refusal": "I will not"}},
        {"message": {"content": ""}, "finish_reason": "content_filter"},
    ],
)
def test_model_that_declines_is_a_refusal(choice: dict[str, Any]) -> None:
    answer, _, _ = ask([Scripted(body={"choices": [choice]})])
    assert isinstance(answer, TeacherError)
    assert answer.reason is TeacherFailure.REFUSED


def test_content_in_parts_and_without_usage() -> None:
    parts = [{"type": "text", "text": "go "}, {"type": "image"}, {"type": "text", "text": "left"}]
    answer, teacher, _ = ask([Scripted(body={"choices": [{"message": {"content": parts}}], "usage": None})])
    assert answer == "go left"
    assert teacher.metrics()["completion_tokens"] == 0


def test_retry_after_is_honoured() -> None:
    begin = time.monotonic()
    answer, _, _ = ask([Scripted("later", status=429, headers={"Retry-After": "0.4"}), "fine"], backoff=0.0)
    assert answer == "fine"
    assert time.monotonic() - begin >= 0.4


def test_deadline_ends_a_call_whatever_the_server_asks_for() -> None:
    answer, _, _ = ask([Scripted("later", status=429, headers={"Retry-After": "3600"})], deadline=0.3)
    assert isinstance(answer, TeacherError)
    assert answer.reason is TeacherFailure.TIME_OUT


def test_waiting_for_a_place_does_not_count_against_the_deadline() -> None:
    """The first call hangs to its deadline; the second has waited just as long, and has all of its own before it."""
    with FakeEndpoint([Scripted(behaviour="hang"), "ok"]) as endpoint:
        teacher = build(endpoint, concurrency=1, deadline=2.0)

        async def calls() -> list[str | BaseException]:
            asked = (teacher.complete(ASK) for _ in range(2))
            return list(await asyncio.gather(*asked, return_exceptions=True))

        late, answered = asyncio.run(calls())
        assert isinstance(late, TeacherError)
        assert late.reason is TeacherFailure.TIME_OUT
        assert answered == "ok"


@pytest.mark.parametrize("then", ["stop", "go_on"])
def test_a_budget_stops_further_calls_where_no_step_is_under_way(then: str) -> None:
    with FakeEndpoint(["one two three"]) as endpoint:
        teacher = build(endpoint, budget={"tokens": 5, "then": then})

        async def calls() -> TeacherFailure:
            await teacher.complete(ASK)
            with pytest.raises(
                TeacherError, match=r"teacher\.budget\.tokens is used up: 2 prompt and 3 comp"
            ) as caught:
                await teacher.complete(ASK)
            return caught.value.reason

        assert asyncio.run(calls()) is TeacherFailure.BUDGET
        assert len(endpoint.requests) == 1
        assert (teacher.spending.stops() is None) == (then == "go_on")


def test_within_a_step_calls_go_beyond_the_budget_unless_the_run_goes_on() -> None:
    with FakeEndpoint(["one two three"]) as endpoint:
        teacher = build(endpoint, budget={"completion_tokens": 3})
        teacher.spending.step_goes_on = True
        for _ in range(3):
            assert asyncio.run(teacher.complete(ASK)) == "one two three"
        assert "9 completion tokens" in str(teacher.spending.stops())
        other = build(endpoint, budget={"prompt_tokens": 2, "then": "go_on"})
        other.spending.step_goes_on = True
        asyncio.run(other.complete(ASK))
        with pytest.raises(TeacherError, match=r"budget\.prompt_tokens"):
            asyncio.run(other.complete(ASK))


def test_the_account_is_that_of_the_run_and_not_of_the_process() -> None:
    limits = {"budget": {"tokens": 5}, "price": {"prompt": 2.0, "completion": 10.0}}
    with FakeEndpoint(["one two three"]) as endpoint:
        first = build(endpoint, **limits)
        asyncio.run(first.complete(ASK))
        resumed = build(endpoint, **limits)
        assert isinstance(resumed, KeepsState)
        resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
        with pytest.raises(TeacherError, match=r"cost 0\.0000"):
            asyncio.run(resumed.complete(ASK))
        assert len(endpoint.requests) == 1
        assert resumed.state_dict() == first.state_dict()
        assert resumed.spending.cost == pytest.approx((2 * 2.0 + 3 * 10.0) / 1e6)
        assert (resumed.metrics()["prompt_tokens"], resumed.metrics()["cost"]) == (0, 0)
        assert first.metrics()["cost"] == first.spending.cost


def test_a_cost_budget_needs_prices() -> None:
    for wrong in ({"budget": {"cost": 1.0}}, {"budget": {"cost": -1}}, {"budget": {"tokenz": 1}}):
        with pytest.raises(ValueError):
            HttpTeacherSettings.model_validate({"base_url": "http://host/v1", "model": "m"} | wrong)


def test_works_in_one_event_loop_after_another() -> None:
    with FakeEndpoint(["ok"]) as endpoint:
        teacher = build(endpoint, concurrency=1)

        async def calls() -> list[str]:
            return list(await asyncio.gather(*(teacher.complete(ASK) for _ in range(3))))

        for _ in range(3):
            assert asyncio.run(calls()) == ["ok"] * 3
        asyncio.run(teacher.close())


def test_text_that_cannot_be_encoded_is_sent_replaced() -> None:
    with FakeEndpoint(["ok"]) as endpoint:
        teacher = build(endpoint)
        assert asyncio.run(teacher.complete((Message("user", "a\ud800b"),))) == "ok"
        assert endpoint.requests[0].body["messages"][0]["content"] == "a?b"


def test_key_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEACHER_KEY", "sk-very-secret")
    caplog.set_level(logging.DEBUG)
    answer, teacher, endpoint = ask(
        lambda request: Scripted(f"bad key {request.headers['authorization']}", status=401),
        api_key_env="TEACHER_KEY",
    )
    assert endpoint.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    shown = [str(answer), repr(teacher), repr(teacher.settings), teacher.settings.model_dump_json()]
    assert not any("secret" in text for text in [*shown, caplog.text])


@pytest.mark.parametrize("value", [None, "", "ключ", "a\nb"])
def test_unusable_key_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("TEACHER_KEY", raising=False)
    else:
        monkeypatch.setenv("TEACHER_KEY", value)
    with pytest.raises(ConfigError, match="TEACHER_KEY"):
        HttpTeacher(HttpTeacherSettings(base_url="http://x/v1", model="m", api_key_env="TEACHER_KEY"))


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "http://user:pass@host/v1"},
        {"base_url": "http://host:99999/v1"},
        {"extra_body": {"messages": []}},
        {"extra_body": {"stream": True}},
        {"modell": "x"},
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        HttpTeacherSettings.model_validate({"base_url": "http://host/v1", "model": "m"} | changes)


def check(endpoint: FakeEndpoint, **settings: Any) -> None:
    asyncio.run(build(endpoint, **settings).check())


def test_check_accepts_a_listed_model_and_names_the_nearest_of_others() -> None:
    with FakeEndpoint(["ok"], models=["qwen3-8b", "llama"]) as endpoint:
        check(endpoint, model="qwen3-8b", probe="reach")
        with pytest.raises(ConfigError, match="did you mean 'qwen3-8b'"):
            check(endpoint, model="qwen-8b", probe="reach")
        assert endpoint.requests == []


def test_check_asks_for_a_token_where_there_is_no_listing() -> None:
    def serve(request: Request) -> Scripted:
        known = request.body["model"] == "fake-model"
        return Scripted("o") if known else Scripted("unknown model", status=404)

    with FakeEndpoint(serve, models=None) as endpoint:
        check(endpoint, probe="reach")
        assert endpoint.requests[0].body["max_tokens"] == 1
        with pytest.raises(ConfigError, match="unknown model"):
            check(endpoint, model="other")


def test_check_says_when_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = HttpTeacherSettings(base_url=f"http://127.0.0.1:{port}/v1", model="m")
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}.*start the server"):
        asyncio.run(HttpTeacher(settings).check())


def test_analyse_and_recover_over_the_wire() -> None:
    suite = toy_suite()
    episode = play_actions(suite.make(), suite.tasks("train")[0], ["wait", "wait"])
    report = '{"summary": "s", "lesson": "l"} <correct_action step="1">switch on lamp</correct_action>'
    with FakeEndpoint([report, "<action>go left</action>"]) as endpoint:
        settings = {"kind": "http", "base_url": endpoint.url, "model": "fake-model"}
        teacher = teacher_registry.parse(settings).build(suite)

        async def both() -> tuple[Any, Any]:
            first = await teacher.analyse(episode, 3)
            where = Situation(episode.task, episode.turns, episode.observation_at(2), turn=2)
            return first, await teacher.recover(where)

        named, action = asyncio.run(both())
    assert [(c.turn, c.action) for c in named.candidates] == [(1, "switch on lamp")]
    assert action == "go left"
    assert suite.instructions in endpoint.requests[0].body["messages"][0]["content"]
