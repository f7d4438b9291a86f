"""The small report before a run, in every form an endpoint may be asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.records import Message
from turnpoint.teachers import Situation
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.testing import FakeEndpoint, Request, Scripted, play_actions, toy_suite

WRITTEN = (
    '```json\n{"summary": "s", "lesson": "light first", "turn_lessons": {"1": "too dark"}}\n```\n'
    '<correct_action step="1">switch on lamp</correct_action>'
)
REPORT = {
    "summary": "s",
    "lesson": "light first",
    "turn_lessons": [{"turn": 1, "lesson": "too dark"}],
    "correct_actions": [{"turn": 1, "action": "switch on lamp"}],
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def model(request: Request) -> Scripted:
    """A model that keeps to the form the endpoint enforces, as real ones name it, and else to the written one."""
    body = request.body
    report = "<correct_action " in body["messages"][-1]["content"]
    data = json.dumps(REPORT if report else {"action": "go left"})
    written = WRITTEN if report else "<action>go left</action>"
    message: dict[str, Any] = {"role": "assistant", "content": written}
    if "tools" in body:
        assert body["tool_choice"]["function"]["name"] == body["tools"][0]["function"]["name"]
        call = {"id": "1", "type": "function", "function": {"name": "report", "arguments": data}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    elif "response_format" in body:
        assert "JSON object" in body["messages"][-1]["content"]
        message = {"role": "assistant", "content": data}
    usage = {"prompt_tokens": 400, "completion_tokens": 60}
    return Scripted(body={"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})


def build(endpoint: FakeEndpoint, **settings: Any) -> HttpTeacher:
    data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, "timeout": 5.0} | settings
    return HttpTeacher(HttpTeacherSettings.model_validate(data))


@pytest.mark.parametrize("how", ["text", "json_object", "json_schema", "tool"])
def test_reports_and_actions_in_every_form(how: str) -> None:
    suite = toy_suite()
    episode = play_actions(suite.make(), suite.tasks("train")[0], ["wait", "wait"])
    with FakeEndpoint(model) as endpoint:
        teacher = build(endpoint, reply_format=how)

        async def go() -> tuple[Any, Any]:
            await teacher.check()
            report = await teacher.analyse(episode, 2)
            where = Situation(episode.task, episode.turns, episode.observation_at(2), turn=2)
            return report, await teacher.recover(where)

        report, action = asyncio.run(go())
    assert teacher.notes == [f"answers in the form of a report ({how}), naming turn 1 of 3: switch on lamp"]
    assert [(c.turn, c.action) for c in report.candidates] == [(1, "switch on lamp")]
    assert (report.lesson, report.turn_lessons) == ("light first", {1: "too dark"})
    assert action == "go left"
    bodies = [request.body for request in endpoint.requests]
    assert all(("response_format" in body) == how.startswith("json") for body in bodies)
    assert teacher.metrics()["prompt_tokens"] == 1200


def test_questions_without_a_form_are_left_alone() -> None:
    with FakeEndpoint(["yes"]) as endpoint:
        assert (
            asyncio.run(build(endpoint, reply_format="tool").complete([Message("user", "ready?")])) == "yes"
        )
        assert "tools" not in endpoint.requests[0].body


def choice(text: str, **more: Any) -> Scripted:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return Scripted(body={"choices": [{"message": {"content": text}, **more}], "usage": usage})


@pytest.mark.parametrize(
    ("answer", "settings", "message"),
    [
        (choice("I think it went well."), {}, r"does not answer in the form of a report .*it went well"),
        (
            choice("", finish_reason="length"),
            {},
            r"cut at teacher\.max_tokens, which reasoning counts against",
        ),
        (
            choice("{broken"),
            {"reply_format": "json_schema"},
            r"reply_format json_schema.*another teacher\.reply_format",
        ),
        (
            Scripted("response_format is not supported", status=400),
            {"reply_format": "json_object"},
            "not supported",
        ),
        (
            Scripted(body={"choices": [{"message": {"content": WRITTEN}}]}),
            {"budget": {"tokens": 1000}},
            "does not say how many tokens",
        ),
    ],
)
def test_what_an_endpoint_lacks_is_said(answer: Scripted, settings: dict[str, Any], message: str) -> None:
    with FakeEndpoint([answer]) as endpoint:
        teacher = build(endpoint, **settings)
        with pytest.raises(ConfigError, match=message):
            asyncio.run(teacher.check())


def test_a_report_that_names_nothing_is_a_report() -> None:
    with FakeEndpoint(['{"summary": "s", "lesson": "l", "turn_lessons": {}}']) as endpoint:
        teacher = build(endpoint)
        asyncio.run(teacher.check())
        assert teacher.notes == ["answers in the form of a report (text), naming no turn"]
