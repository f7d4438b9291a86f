"""A teacher's budget from the command line: a clear stop, what it cost, and going on with a larger one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from turnpoint.cli import app
from turnpoint.policy.small.build import build_small_agent
from turnpoint.prompts import Prompter
from turnpoint.testing import FakeEndpoint, Request, Scripted
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.metrics import read_metrics
from turnpoint.training.settings import load_run_config

CONFIG: dict[str, Any] = {
    "name": "run",
    "env": {"kind": TOY, "max_turns": 3},
    "prompt": {"compact": True},
    "method": {"kind": "pivotopd", "group": 2, "recovery_turns": 1},
    "rollout": {"max_response_tokens": 6},
    "train": {"steps": 3, "tasks_per_step": 2, "checkpoint_every": 0, "keep_checkpoints": 9},
    "eval": {"before": False, "every": 0, "tasks": 1},
    "loggers": [],
}
USED = {"prompt_tokens": 100, "completion_tokens": 20}
PRICE = {"prompt": 1.0, "completion": 5.0}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def names(request: Request) -> Scripted:
    """A teacher that names the first turn, in 100 + 20 tokens."""
    report = "<correct_action " in request.body["messages"][-1]["content"]
    text = '{"summary": "s"} <correct_action step="0">go right</correct_action>'
    message = {"content": text if report else "<action>go right</action>"}
    return Scripted(body={"choices": [{"message": message}], "usage": USED})


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(names) as server:
        yield server


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = load_run_config(CONFIG | {"policy": {"kind": "local", "model": "none"}})
    suite = config.env.build()
    texts = [*suite.vocabulary_texts(), *Prompter(config.prompt, suite.instructions).vocabulary_texts()]
    return build_small_agent(
        texts, width=16, heads=2, kv_heads=1, ffn=16, seed=0, context_length=400,
        folder=tmp_path_factory.mktemp("agent"),
    )  # fmt: skip


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def recipe(folder: Path, agent: Path, endpoint: FakeEndpoint, name: str, **teacher: Any) -> Path:
    settings = {"kind": "http", "base_url": endpoint.url, "model": "fake-model", "backoff": 0.01, **teacher}
    data = CONFIG | {
        "name": name,
        "out": str(folder),
        "policy": {"kind": "local", "model": str(agent), "optimizer": {"lr": 0.01}},
        "teacher": settings,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def steps(folder: Path) -> list[dict[str, Any]]:
    return [record for record in read_metrics(folder / "metrics.jsonl") if record["kind"] == "train"]


def weights(folder: Path) -> bytes:
    return (folder / "checkpoints/step_000003/policy/model.safetensors").read_bytes()


def test_a_spent_budget_ends_the_run_and_a_larger_one_goes_on(
    tmp_path: Path, agent: Path, endpoint: FakeEndpoint
) -> None:
    whole = cli("train", recipe(tmp_path, agent, endpoint, "whole", price=PRICE))
    assert whole.exit_code == 0, whole.output
    a_step = steps(tmp_path / "whole")[1]["teacher/prompt_tokens"]
    assert a_step > 0

    limits = {"budget": {"prompt_tokens": int(1.5 * a_step)}, "price": PRICE}
    stopped = cli("train", recipe(tmp_path, agent, endpoint, "parts", **limits))
    assert stopped.exit_code == 1, stopped.output
    done = steps(tmp_path / "parts")
    assert 1 <= len(done) < 3
    said = f"stopped after step {len(done)} of 3: teacher.budget.prompt_tokens is used up"
    assert said in stopped.output
    assert "teacher used" in stopped.output
    assert stopped.output.splitlines()[-1].endswith("parts")
    assert "prompt and" in (tmp_path / "parts/report.html").read_text()

    refused = cli("resume", tmp_path / "parts")
    assert refused.exit_code == 2
    assert "is used up" in refused.output
    assert "nothing was done" in refused.output
    assert len(steps(tmp_path / "parts")) == len(done)

    resumed = cli("resume", tmp_path / "parts", f"teacher.budget.prompt_tokens={int(100 * a_step)}")
    assert resumed.exit_code == 0, resumed.output
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    last, expected = steps(tmp_path / "parts")[-1], steps(tmp_path / "whole")[-1]
    probe = 100  # the resumed run asked for its small report again
    assert last["spent/teacher/prompt_tokens"] == expected["spent/teacher/prompt_tokens"] + probe
    tokens = (last["spent/teacher/prompt_tokens"], last["spent/teacher/completion_tokens"])
    assert last["spent/teacher/cost"] == pytest.approx((tokens[0] * 1.0 + tokens[1] * 5.0) / 1e6)


def test_a_run_may_go_on_without_its_teacher(tmp_path: Path, agent: Path, endpoint: FakeEndpoint) -> None:
    limits = {"budget": {"tokens": 200, "then": "go_on"}}
    result = cli("train", recipe(tmp_path, agent, endpoint, "alone", **limits))
    assert result.exit_code == 0, result.output
    done = steps(tmp_path / "alone")
    assert len(done) == 3
    assert done[-1]["teacher/failures/budget"] > 0
    assert done[-1]["teacher/prompt_tokens"] == 0
    used = done[-1]["spent/teacher/prompt_tokens"] + done[-1]["spent/teacher/completion_tokens"]
    assert 200 <= used <= 200 + 4 * 120, "calls of the four episodes that were under way are finished"
    assert all(record["spent/teacher/prompt_tokens"] * 1.2 == used for record in done)


def test_a_cached_run_repeats_for_nothing(tmp_path: Path, agent: Path, endpoint: FakeEndpoint) -> None:
    cache = str(tmp_path / "answers.sqlite")
    runs = [("plain", "off"), ("first", cache), ("second", cache)]
    for name, kept in runs:
        result = cli("train", recipe(tmp_path, agent, endpoint, name, cache=kept, probe="reach"))
        assert result.exit_code == 0, result.output
    assert len({weights(tmp_path / name) for name, _ in runs}) == 1
    second = steps(tmp_path / "second")
    assert sum(record["teacher/cache_hits"] for record in second) > 0
    assert sum(record["teacher/cache_misses"] + record["teacher/prompt_tokens"] for record in second) == 0


def test_the_check_says_how_long_a_budget_lasts(tmp_path: Path, agent: Path, endpoint: FakeEndpoint) -> None:
    limits = {"budget": {"cost": 0.001}, "price": PRICE}
    path = recipe(tmp_path, agent, endpoint, "check", **limits)
    result = cli("check", path, "train.steps=1000", "env.max_turns=8", "--json")
    findings = {(f["group"], f["name"]): f for f in json.loads(result.stdout)["checks"]}
    assert findings["teacher", "answers"]["detail"].startswith(
        "teacher: answers in the form of a report (text)"
    )
    cost = findings["cost", "step"]
    assert cost["verdict"] == "warn"
    assert "teacher.budget.cost lasts about" in cost["detail"]
    assert "of 1000 steps" in cost["detail"]
