"""Teachers behind a real vLLM server: what it answers is what our own scorer says, and what its form allows."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import Message
from turnpoint.teachers.http import HttpTeacher, HttpTeacherSettings
from turnpoint.teachers.scoring import Student, scoring_registry
from turnpoint.testing import toy_suite

from .engine_work import write_model

pytestmark = pytest.mark.vllm
CONTEXT = 2048


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), "qwen3")


@pytest.fixture(scope="module")
def url(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", str(CONTEXT),
        "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--generation-config", "vllm",
        "--block-size", "32",
    ]  # fmt: skip
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    log = tmp_path_factory.mktemp("log") / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | quiet)
        try:
            wait_for(f"http://127.0.0.1:{port}", server, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + 540
    while time.monotonic() < ends:
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-4000:])


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def student(model: Path) -> Student:
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.settings import LocalPolicySettings

    suite = toy_suite(max_turns=4)
    policy = LocalPolicy(LocalPolicySettings(model=str(model), device="cpu", context_length=CONTEXT), seed=0)
    prompter = Prompter(PromptSettings(compact=True), suite.instructions)
    return Student(policy, prompter, ChatRenderer(policy.tokenizer), suite)


def played(student: Student) -> Any:
    from turnpoint.rollouts import Rollouts, RolloutSettings, Streams

    settings = RolloutSettings(max_response_tokens=16, max_turns=4)
    rollouts = Rollouts(
        student.suite, student.policy, student.prompter, student.renderer, settings, Streams(0)
    )
    return asyncio.run(rollouts.play(student.suite.tasks("train")[0], 0))


def test_prompt_logprobs_are_those_of_a_fresh_scorer(
    url: str, model: Path, student: Student, tmp_path: Path
) -> None:
    episode = played(student)
    turns = [turn for turn in episode.turns if turn.response_ids]
    assert len(turns) > 1
    local = scoring_registry.parse({"kind": "local", "model": str(model), "device": "cpu"}).build(student)
    http = {"kind": "http", "base_url": url, "model": "tiny", "cache": str(tmp_path / "answers.sqlite")}
    remote: Any = scoring_registry.parse(http).build(student)
    again: Any = scoring_registry.parse(http).build(student)

    async def go() -> tuple[Any, Any, Any]:
        await remote.check()
        given = await remote.score(episode, turns)
        await remote.close()
        await again.check()
        kept = await again.score(episode, turns)
        await again.close()
        return await local.score(episode, turns), given, kept

    wanted, given, kept = asyncio.run(go())
    assert remote.notes[0] == "log-probs of prompt tokens by prompt_logprobs"
    for a, b, c in zip(wanted, given, kept, strict=True):
        assert (a.turn, a.token_ids) == (b.turn, b.token_ids)
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-4)
        assert b.logprobs.tobytes() == c.logprobs.tobytes()
    assert again.metrics()["cache_hits"] > 0
    assert again.metrics()["read_tokens"] == 0
    assert remote.metrics()["prompt_tokens"] > remote.metrics()["read_tokens"] > 0


def test_a_model_that_cannot_report_is_refused_and_its_tokens_are_counted(url: str) -> None:
    settings = HttpTeacherSettings(base_url=url, model="tiny", max_tokens=16, price={"prompt": 1.0})
    teacher = HttpTeacher(settings)
    with pytest.raises(
        ConfigError, match=r"does not answer in the form of a report .* cut at teacher\.max_tokens"
    ):
        asyncio.run(teacher.check())
    assert teacher.spending.prompt_tokens > 500
    assert teacher.spending.completion_tokens <= 16
    assert teacher.spending.cost == teacher.spending.prompt_tokens / 1e6


@pytest.mark.parametrize("how", ["json_object", "json_schema"])
def test_json_is_enforced_by_the_server(url: str, how: Any) -> None:
    """Even a random model begins a JSON object where the form is enforced."""
    settings = HttpTeacherSettings(base_url=url, model="tiny", max_tokens=16, reply_format=how, probe="reach")
    teacher = HttpTeacher(settings)

    async def go() -> str:
        await teacher.check()
        return await teacher.complete([Message("user", "What now? <action>...</action>")])

    assert asyncio.run(go()).lstrip().startswith("{")


def test_what_the_server_was_not_started_for_is_said(url: str) -> None:
    teacher = HttpTeacher(HttpTeacherSettings(base_url=url, model="tiny", max_tokens=16, reply_format="tool"))
    with pytest.raises(ConfigError, match=r"requires --tool-call-parser"):
        asyncio.run(teacher.check())
