"""Back-pressure towards endpoints that limit, hang, or go away and come back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from turnpoint.records import Message
from turnpoint.teachers import TeacherError, TeacherFailure
from turnpoint.teachers.gate import Gate, GateSettings, NotAsked
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.wire import CallFailed
from turnpoint.testing import FakeEndpoint, Request, Scripted

ASK = (Message("user", "what now?"),)
HANG = Scripted(behaviour="hang")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ask_many(script: Any, calls: int, **settings: Any):
    """Answers and failures of calls begun together, the teacher and the endpoint."""
    with FakeEndpoint(script) as endpoint:
        data = {"base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, "timeout": 5.0} | settings
        teacher = HttpTeacher(HttpTeacherSettings.model_validate(data))

        async def go():
            got = await asyncio.gather(*(teacher.complete(ASK) for _ in range(calls)), return_exceptions=True)
            await teacher.close()
            return got

        got = asyncio.run(go())
    for error in got:
        assert isinstance(error, str | TeacherError), error
    return got, teacher, endpoint


def reasons(got: list[Any]) -> list[TeacherFailure]:
    return [error.reason for error in got if isinstance(error, TeacherError)]


def test_a_hanging_teacher_costs_one_deadline_and_not_one_for_every_call() -> None:
    got, teacher, endpoint = ask_many([HANG], 40, concurrency=4, deadline=0.3, rest_after=4)
    assert len(endpoint.requests) <= 7  # some may follow before the fourth is given up
    counted, timed_out = teacher.metrics(), reasons(got).count(TeacherFailure.TIME_OUT)
    assert 4 <= timed_out <= 7
    assert reasons(got).count(TeacherFailure.UNREACHABLE) == 40 - timed_out
    assert (counted["gate/rests"], counted["gate/at_rest"]) == (1, 40 - timed_out)
    assert counted["gate/queued"] == 36
    assert counted["failures/time_out"] == timed_out
    assert "left alone" in str(got[-1])


def test_no_more_requests_are_open_than_places_and_all_are_answered() -> None:
    got, teacher, endpoint = ask_many([Scripted("ok", delay=0.02)], 12, concurrency=3)
    assert got == ["ok"] * 12
    assert endpoint.open_most == 3
    assert teacher.metrics()["gate/queued"] == 9


def test_a_queue_has_an_end_in_length_and_in_time() -> None:
    got, teacher, endpoint = ask_many([Scripted("ok", delay=0.1)], 6, concurrency=1, queue=2)
    assert [one for one in got if one == "ok"] == ["ok"] * 3
    assert "calls wait already" in str(got[-1])
    assert teacher.metrics()["gate/queue_full"] == 3 == len(reasons(got))
    got, teacher, endpoint = ask_many([HANG], 3, concurrency=1, queue_seconds=0.1, deadline=0.8)
    assert reasons(got) == [TeacherFailure.TIME_OUT] * 3
    assert teacher.metrics()["gate/queue_timed_out"] == 2
    assert len(endpoint.requests) <= 1


def test_when_the_server_asks_for_patience_everybody_waits() -> None:
    arrived: list[float] = []

    def script(request: Request) -> Scripted:
        arrived.append(time.monotonic())
        if len(arrived) == 1:
            return Scripted("later", status=503, headers={"Retry-After": "0.5"})
        return Scripted("ok", delay=0.02)

    got, teacher, _ = ask_many(script, 6, concurrency=2)
    assert got == ["ok"] * 6
    first, *rest = arrived
    late = [moment - first for moment in rest]
    assert sum(wait < 0.5 for wait in late) <= 1  # the one that was on its way
    assert teacher.metrics()["gate/pauses"] == 1


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    later = Scripted("later", status=429, headers={"Retry-After": "30"})
    got, _, endpoint = ask_many([later], 1, deadline=3.0)
    assert reasons(got) == [TeacherFailure.TIME_OUT]
    assert "the next try would come after teacher.deadline" in str(got[0])
    assert "429" in str(got[0])
    assert len(endpoint.requests) == 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def call(gate: Gate, failure: TeacherFailure | None = None) -> str:
    """What comes of one call whose request fails in a certain way."""

    async def go() -> str:
        try:
            async with gate.place():
                if failure is not None:
                    raise CallFailed(failure, "broken", retry=False)
        except NotAsked:
            return "not asked"
        except CallFailed:
            return "failed"
        return "answered"

    return asyncio.run(go())


def gate(**settings: Any) -> tuple[Gate, Clock]:
    clock = Clock()
    return Gate(GateSettings.model_validate({"rest_after": 3, "rest_seconds": 10.0} | settings), clock), clock


def test_a_rest_ends_and_a_single_failure_begins_the_next() -> None:
    one, clock = gate()
    for _ in range(3):
        assert call(one, TeacherFailure.TIME_OUT) == "failed"
    assert call(one) == "not asked"
    clock.now = 11.0
    assert call(one, TeacherFailure.UNREACHABLE) == "failed"
    assert call(one) == "not asked"
    clock.now = 22.0
    assert call(one) == "answered"
    assert call(one, TeacherFailure.TIME_OUT) == "failed"  # an answer began the count anew
    assert call(one) == "answered"
    assert one.metrics()["gate/rests"] == 2
    assert one.metrics()["gate/at_rest"] == 2


def test_answers_and_refusals_break_a_row_of_failures() -> None:
    one, _ = gate()
    for failure in (TeacherFailure.TIME_OUT, TeacherFailure.TIME_OUT, TeacherFailure.REFUSED) * 3:
        assert call(one, failure) == "failed"
    assert call(one) == "answered"


def test_without_a_limit_nobody_is_sent_away() -> None:
    one, _ = gate(rest_after=None)
    for _ in range(20):
        call(one, TeacherFailure.UNREACHABLE)
    assert call(one) == "answered"
