"""OpenEnv itself: our server and its client, our client and its servers, and both of ours together."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.adapters.openenv.client import ServerGone, ServerRefused, ServerSilent, Session
from turnpoint.envs.adapters.openenv.settings import OpenEnvSettings
from turnpoint.envs.adapters.openenv.suite import OpenEnvSuite
from turnpoint.envs.check import check_env
from turnpoint.envs.exports import openenv as export
from turnpoint.envs.exports.openenv import OpenEnvServer
from turnpoint.testing import toy_suite

pytestmark = pytest.mark.adapters


@pytest.fixture(scope="module")
def served() -> Iterator[OpenEnvServer]:
    with OpenEnvServer(toy_suite(), sessions=6) as server:
        yield server


def make(server: OpenEnvServer, **settings: Any) -> OpenEnvSuite:
    told = {"deterministic": True, "admissible": True} | settings
    return OpenEnvSettings.model_validate({"base_url": server.url, **told}).build()


def test_our_client_plays_our_server_under_the_contract(served: OpenEnvServer) -> None:
    report = check_env(make(served), tasks=3, quick=True)
    assert report.ok, report.failures
    assert {check.name for check in report.checks if not check.skipped} >= {"fork", "replay", "memory"}


def test_both_clients_see_what_the_environment_shows(served: OpenEnvServer) -> None:
    ours = toy_suite()
    suite, direct = make(served), ours.make()
    env, task = suite.make(), ours.tasks("valid")[5]
    with GenericEnvClient(base_url=served.url).sync() as theirs:
        first = theirs.reset(split="valid", index=5)
        seen = env.reset(suite.tasks("valid")[5])
        start = direct.reset(task)
        assert seen.text == first.observation["text"] == f"Your task: {task.instruction}\n{start.text}"
        assert list(seen.admissible or ()) == first.observation["admissible"]
        for action in ("switch on lamp", "nonsense", "go left", "wait"):
            step, told, expected = env.step(action), theirs.step({"text": action}), direct.step(action)
            assert step.observation.text == told.observation["text"] == expected.observation.text
            assert (step.reward, step.done) == (told.reward, told.done) == (expected.reward, expected.done)
            assert step.effective is told.observation["effective"] is expected.effective
        assert theirs.state()["step_count"] == 4
    env.close()


def test_the_whole_game_is_won_through_the_wire(served: OpenEnvServer) -> None:
    ours = toy_suite()
    suite, direct = make(served), ours.make()
    env = suite.make()
    for task, there in zip(ours.tasks("train")[:3], suite.tasks("train")[:3], strict=True):
        direct.reset(task)
        env.reset(there)
        while True:
            action = direct.best_actions()[0]
            direct.step(action)
            step = env.step(action)
            if step.done:
                break
        assert (step.reward, step.success) == (1.0, True)
    env.close()


def test_the_server_lists_its_tasks_and_schema(served: OpenEnvServer) -> None:
    with httpx.Client(base_url=served.url, trust_env=False, timeout=30) as http:
        assert http.get("/health").json()["status"] == "healthy"
        assert http.get("/toy/splits").json()[0]["name"] == "train"
        assert http.post("/toy/num_tasks", json={"split": "valid"}).json()["num_tasks"] == 32
        task = http.post("/toy/task", json={"split": "valid", "index": 1}).json()["task"]
        assert task["instruction"].startswith("Open the chest")
        assert http.get("/schema").json()["action"]["required"] == ["text"]
        assert http.post("/toy/task", json={"split": "valid", "index": 99}).status_code == 400


def test_a_long_list_of_tasks_is_refused_and_a_shorter_one_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = export._classes(toy_suite(train_tasks=1200))[2]()
    assert len(environment.list_tasks("train")) == 1200
    monkeypatch.setattr(export, "MOST_LISTED", 1000)
    with pytest.raises(EnvError, match="has 1200 tasks, and at most 1000 are listed"):
        environment.list_tasks("train")
    assert len(environment.get_task_range("train", 1100, 1200)) == 100


def test_the_server_is_on_the_loopback_interface(served: OpenEnvServer) -> None:
    assert served.url.startswith("http://127.0.0.1:")


def test_broken_messages_are_answered(served: OpenEnvServer) -> None:
    session = Session(served.url, connect_seconds=10, seconds=30)
    session.ask("reset", {"split": "train", "index": 0})
    with pytest.raises(ServerRefused, match="refused 'step'"):
        session.ask("step", {"words": "look"})
    with pytest.raises(ServerRefused, match="refused 'dance'"):
        session.ask("dance", {})
    with pytest.raises(ServerRefused, match="split 'train' has tasks 0 to 63"):
        session.ask("reset", {"split": "train", "index": 64})
    assert session.ask("step", {"text": "wait"})["done"] is False
    session.close()


def test_the_server_takes_no_more_sessions_than_it_may(served: OpenEnvServer) -> None:
    sessions = [Session(served.url, connect_seconds=10, seconds=30) for _ in range(6)]
    for session in sessions:
        session.ask("reset", {"seed": 1})
    with pytest.raises(ServerRefused, match=r"(?i)capacity|session") as refused:
        Session(served.url, connect_seconds=10, seconds=30).ask("reset", {"seed": 1})
    assert refused.value.code
    for session in sessions:
        session.close()


class Word(Action):
    """One of the library's own kind, with two fields."""

    word: str
    loud: bool = False


class Heard(Observation):
    """What a small environment answers."""

    heard: str = ""
    turn: int = 0


ended = threading.Event()
"""Nothing hangs any more."""


class Parrot(Environment):
    """Repeats words; some of them make it misbehave."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Heard:
        self.turn = 0
        return Heard(heard=f"hello {seed}")

    def step(self, action: Word, timeout_s: float | None = None, **_: Any) -> Heard:
        self.turn += 1
        if action.word == "hang":
            ended.wait(60)
        if action.word == "raise":
            raise KeyError("no such perch")
        reward = float("nan") if action.word == "nan" else float(action.word == "cracker")
        heard = (action.word.upper() if action.loud else action.word)[:100]
        return Heard(heard=heard, turn=self.turn, reward=reward, done=reward == 1.0)

    @property
    def state(self) -> State:
        return State(step_count=self.turn)


@pytest.fixture(scope="module")
def parrot() -> Iterator[OpenEnvServer]:
    """A native OpenEnv environment, behind the same server loop."""
    app = create_fastapi_app(Parrot, Word, Heard, max_concurrent_envs=8, env_name="parrot")
    with patch.object(export, "openenv_app", lambda *_, **__: app):
        server = OpenEnvServer(toy_suite())
    with server:
        yield server
        ended.set()


def native(server: OpenEnvServer, **settings: Any) -> OpenEnvSuite:
    return OpenEnvSettings.model_validate({"base_url": server.url, "deterministic": True, **settings}).build()


def test_our_client_plays_a_native_environment(parrot: OpenEnvServer) -> None:
    suite = native(parrot, observation_field="heard")
    assert suite.facts.action_field == "word"
    env = suite.make()
    assert env.reset(suite.tasks("train")[7]).text == "hello 7"
    assert env.step("polly").observation.text == "polly"
    last = env.step("cracker")
    assert (last.reward, last.done, last.success) == (1.0, True, True)
    report = check_env(suite, tasks=2, quick=True)
    assert report.ok, report.failures
    whole = native(parrot, action_json=True).make()
    whole.reset(suite.tasks("train")[0])
    assert whole.step('{"word": "hey", "loud": true}').observation.text == "HEY"
    assert not whole.step("no json").effective
    assert not whole.step('{"loud": true}').effective


def test_faults_of_a_server_have_their_names(parrot: OpenEnvServer) -> None:
    suite = native(parrot, observation_field="heard", call_seconds=5.0)
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    with pytest.raises(ServerRefused, match="no such perch"):
        env.step("raise")
    assert env.step("nan").reward == 0.0, "such a number is null on the wire"
    with pytest.raises(ServerSilent, match=r"within 5 s"):
        env.step("hang")
    assert env.reset(suite.tasks("train")[1]).text == "hello 1"


def test_a_server_that_goes_away_ends_the_episode() -> None:
    with OpenEnvServer(toy_suite()) as server:
        suite = make(server)
        env = suite.make()
        env.reset(suite.tasks("train")[0])
    with pytest.raises(ServerGone):
        env.step("wait")
    with pytest.raises(ServerGone):
        env.reset(suite.tasks("train")[0])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"reset": "task", "train_split": "test"}, "has no tasks of splits 'test'"),
        ({"action_field": "word"}, "the server's actions have"),
    ],
)
def test_settings_that_do_not_fit_the_server(
    served: OpenEnvServer, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(EnvDataError, match=says):
        make(served, **settings)


def test_addresses_without_a_server_are_refused_at_once() -> None:
    with pytest.raises(EnvDataError, match="no OpenEnv server answers"):
        OpenEnvSettings(base_url="http://127.0.0.1:9").build()

    class Plain(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EnvDataError, match="something else than an OpenEnv server"):
            OpenEnvSettings(base_url=f"http://127.0.0.1:{server.server_port}").build()
        server.shutdown()


def test_the_command_serves_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "turnpoint.cli", "serve", "env", "sokoban", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            url = line.split(" at ")[1].strip()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    httpx.get(f"{url}/health", trust_env=False)
                except httpx.HTTPError:
                    time.sleep(0.1)
                    continue
                break
            with GenericEnvClient(base_url=url).sync() as client:
                assert "Your task" in client.reset(split="valid", index=0).observation["text"]
        finally:
            process.send_signal(2)
        assert process.wait(30) == 0
