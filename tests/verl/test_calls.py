"""Calls whose server died, as episodes meet them: repeated, and waited for by nobody else."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from turnpoint.policy.verl.calls import Call, Calls
from turnpoint.policy.verl.errors import EngineError


class Servers:
    """An engine whose calls end when the test says so."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(generate=lambda **_: None)
        self.settings = SimpleNamespace(call_seconds=None)
        self.loop = self
        self.in_flight: set[Future[Any]] = set()
        self.begun: list[Future[Any]] = []
        self.dead = 0
        self.fault: EngineError | None = None
        """Why dead servers cannot be started again."""
        self.answer: str | None = None
        """What later calls are answered with at once."""

    def to_servers(self) -> None:
        """They serve already."""

    def start(self, work: Any) -> Future[Any]:
        work.close()
        self.begun.append(Future())
        if self.answer is not None:
            self.begun[-1].set_result(self.answer)
        return self.begun[-1]

    def revive(self) -> int:
        if self.fault is not None:
            raise self.fault
        dead, self.dead = self.dead, 0
        return dead

    def die(self, *calls: int) -> None:
        self.dead += 1
        for number in calls:
            self.begun[number].set_exception(ray.exceptions.RayActorError())


def calls_on(servers: Servers, count: int) -> Any:
    engine: Any = servers
    calls = Calls(engine)
    assert [calls.send(Call([1], {})) for _ in range(count)] == list(range(1, count + 1))
    return calls


def test_a_lost_call_has_not_finished_and_is_under_way_again() -> None:
    servers = Servers()
    calls = calls_on(servers, 1)
    servers.die(0)
    assert not calls.finished()  # or collect() would hold up the event loop until the repeated call ends
    assert (len(servers.begun), calls.repeated, len(calls)) == (2, 1, 1)
    assert not calls.finished()
    servers.begun[1].set_result("answer")
    assert calls.finished()
    assert calls.collect() == [(1, "answer")]
    assert calls.finished()
    assert (len(calls), calls.collect()) == (0, [])


def test_what_ended_beside_a_lost_call_is_collected_at_once() -> None:
    servers = Servers()
    calls = calls_on(servers, 4)
    servers.begun[3].set_result("last")
    servers.begun[1].set_result("second")
    servers.die(0)
    assert calls.finished()
    assert len(calls) == 4
    assert calls.collect() == [(2, "second"), (4, "last")]
    assert (len(calls), calls.repeated) == (2, 1)
    assert not calls.finished()


def test_without_a_look_before_collect_waits_for_the_repeated_call() -> None:
    servers = Servers()
    calls = calls_on(servers, 1)
    servers.die(0)
    servers.answer = "answer"
    assert calls.collect() == [(1, "answer")]


def test_an_engine_that_cannot_be_brought_back_is_told_by_the_look_with_all_that_is_lost() -> None:
    servers = Servers()
    calls = calls_on(servers, 3)
    servers.begun[0].set_result("first")
    servers.die(1)
    servers.fault = EngineError("no room")
    with pytest.raises(
        EngineError, match="no room; 2 calls in flight and 1 that had just finished are lost with it"
    ):
        calls.finished()
    assert (len(calls), calls.collect()) == (0, [])
