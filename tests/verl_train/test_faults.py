"""What breaks: rollout servers, environment workers and teachers. A step completes, or fails with a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from turnpoint.policy.protocol import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.verl.errors import EngineError
from turnpoint.training.loop import Trainer
from turnpoint.training.run import build_run
from turnpoint.training.view import View

from .conftest import load, steps, train

SMALL = ["method.group=2", "train.steps=1", "train.checkpoint_every=0"]


def kill_server(policy: Any, number: int = 0) -> None:
    (server,) = policy.engine.servers.rollout_replicas[number].servers
    ray.kill(server)


def lose_engine(policy: Any, number: int = 0) -> None:
    (server,) = policy.engine.servers.rollout_replicas[number].servers
    ray.get(server.lose_engine.remote())


def requests(count: int, tokens: int = 8) -> list[SampleRequest]:
    return [
        SampleRequest(tuple(range(5, 12 + i)), i, Sampling(max_tokens=tokens), f"s{i}") for i in range(count)
    ]


def run_all(policy: Any, asked: Sequence[SampleRequest]) -> list[Any]:
    tickets = [policy.submit(request) for request in asked]
    found: dict[int, Any] = {}
    while finished := policy.advance():
        found |= dict(finished)
    return [found[ticket] for ticket in tickets]


def test_a_step_completes_after_a_server_was_killed_in_it(
    policy: Any, model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    original = policy.submit

    def submit(request: SampleRequest) -> int:
        nonlocal calls
        calls += 1
        if calls == 6:
            kill_server(policy)
        ticket: int = original(request)
        return ticket

    monkeypatch.setattr(policy, "submit", submit)
    monkeypatch.setattr(policy.engine, "restarts", 0)
    monkeypatch.setattr(policy, "_counted", (0, policy._counted[1]))
    train(load("pivotopd_household", cache, f"policy.model={model}", *SMALL), tmp_path / "run")
    (found,) = steps(tmp_path / "run")
    assert found["update/servers_restarted"] == 1
    assert found["update/calls_repeated"] >= 1
    assert found["episodes"] == 4
    assert found["update/optimizer_steps"] == 1


def test_repeated_calls_give_the_same_tokens(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And scores too; the new server has the newest weights, not those of the folder it was started from."""
    monkeypatch.setattr(policy.engine, "restarts", 0)
    asked = requests(6)
    before = run_all(policy, asked)
    scored = policy.logprobs(
        [ScoreRequest(r.prompt_ids, s.token_ids) for r, s in zip(asked, before, strict=True)]
    )
    kill_server(policy, 0)
    kill_server(policy, 1)
    again = policy.logprobs(
        [ScoreRequest(r.prompt_ids, s.token_ids) for r, s in zip(asked, before, strict=True)]
    )
    assert [a.tolist() for a in scored] == [a.tolist() for a in again]
    assert [s.token_ids for s in run_all(policy, asked)] == [s.token_ids for s in before]
    assert policy.engine.restarts == 2


def test_a_server_whose_engine_died_is_started_again(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own process lives and answers, as vLLM's does when the process that computes is gone."""
    monkeypatch.setattr(policy.engine, "restarts", 0)
    asked, repeated = requests(6), policy._calls.repeated
    before = [sample.token_ids for sample in run_all(policy, asked)]
    lose_engine(policy, 0)
    assert [sample.token_ids for sample in run_all(policy, asked)] == before
    assert policy.engine.restarts == 1
    assert policy._calls.repeated > repeated
    lose_engine(policy, 1)
    policy.engine.weights_changed()  # they are sent before the next call, and that server cannot take them
    assert [sample.token_ids for sample in run_all(policy, asked)] == before
    assert policy.engine.restarts == 2


def test_without_restarts_left_the_error_counts_what_is_lost(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(policy, requests(1))
    monkeypatch.setattr(policy.engine, "restarts", policy.settings.server_restarts)
    kill_server(policy)
    with pytest.raises(
        EngineError, match=r"policy.server_restarts.*calls in flight and \d+ that had just finished are lost"
    ):
        run_all(policy, requests(6))
    assert policy.advance() == []  # nothing is left half-done
    monkeypatch.setattr(policy.engine, "restarts", 0)
    policy.engine.revive()
    assert len(run_all(policy, requests(2))) == 2


def test_a_call_that_takes_too_long_is_a_typed_error(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all(policy, requests(1))  # the servers have the weights: nothing waits for them below
    settings = policy.settings.model_copy(update={"call_seconds": 0.05})
    monkeypatch.setattr(policy.engine, "settings", settings)
    for replica in policy.engine.servers.rollout_replicas:
        replica.servers[0].hang.remote(3.0)
    with pytest.raises(EngineError, match=r"policy.call_seconds \(0.05\)"):
        run_all(policy, requests(4))
    monkeypatch.setattr(policy.engine, "settings", policy.settings)
    assert len(run_all(policy, requests(2))) == 2


def test_a_teacher_that_hangs_costs_its_turns_and_is_counted(
    policy: Any, model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher_of = ["scoring.kind=verl", f"scoring.model={model}", "scoring.call_seconds=2"]
    own = [f"policy.model={model}", *teacher_of, "method.stop.lambda=-0.5"]
    config = load("stride_household", cache, *own, "train.steps=1", "train.checkpoint_every=0")
    run = build_run(config, tmp_path / "run")
    (teacher,) = run.teachers.scoring.values()
    (server,) = teacher.servers.manager.server_handles  # type: ignore[attr-defined]
    checked = teacher.check

    async def check() -> None:
        await checked()
        server.hang.remote(3600.0)  # it answered before the run, and then no more

    monkeypatch.setattr(teacher, "check", check)
    asyncio.run(Trainer(run, View()).train())
    (found,) = steps(tmp_path / "run")
    assert found["scoring/failures/time_out"] > 0
    assert found["episodes"] == 2
    assert found["dropped_tokens/teacher_failed"] == found["sampled_tokens"] > 0  # no turn has scores
    assert found["rows"] == 0


def test_a_killed_environment_worker_is_replaced(
    policy: Any, model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = ["rollout.env_workers=ray", "rollout.env_seconds=60", "rollout.env_worker_count=2"]
    config = load("pivoarl_household", cache, f"policy.model={model}", "method.attempts=2", *SMALL, *workers)
    run = build_run(config, tmp_path / "run")
    assert run.env_workers is not None
    killed = 0
    original = policy.submit

    def submit(request: SampleRequest) -> int:
        nonlocal killed
        killed += 1
        if killed == 5:
            run.env_workers._all[0].kill()
        ticket: int = original(request)
        return ticket

    monkeypatch.setattr(policy, "submit", submit)
    asyncio.run(Trainer(run, View()).train())
    (found,) = steps(tmp_path / "run")
    assert found["update/optimizer_steps"] == 1
    assert found["episodes"] >= 4
    assert found["env_workers/lost"] == 1
    assert found["env_workers/resumed"] + found["stops"].get("env_error", 0) >= 1
