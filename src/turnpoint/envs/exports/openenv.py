"""Any environment as an OpenEnv server: ``turnpoint serve env KIND``; on the loopback interface unless told so."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnpoint.envs.exports.play import Player
from turnpoint.envs.protocol import EnvDataError, EnvError, EnvSuite

if TYPE_CHECKING:
    from fastapi import FastAPI

LONGEST_ACTION = 1_000_000
"""Characters of an action."""
MOST_LISTED = 10_000
"""Tasks that a list of all of a split may have."""
_START_SECONDS = 60.0


def openenv_app(suite: EnvSuite, *, sessions: int = 64, idle_seconds: float = 3600.0) -> FastAPI:
    """The ASGI application, by OpenEnv's own server code.

    ``sessions``: most clients at a time; ``idle_seconds``: a session without a message for so long is ended.
    ``reset`` takes ``split`` and ``index`` (OpenEnv's Task API lists them), or a ``seed``.
    Raises ``EnvDataError`` if openenv is not installed.
    """
    try:
        from openenv.core.env_server.http_server import create_fastapi_app
        from openenv.core.env_server.types import ConcurrencyConfig
    except ImportError as error:
        raise EnvDataError(
            f"serving an environment needs openenv, which is not installed ({error}): pip install 'turnpoint[openenv]'"
        ) from error
    action, observation, environment = _classes(suite)
    limits = ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=idle_seconds)
    app: FastAPI = create_fastapi_app(
        environment, action, observation, concurrency_config=limits, env_name=suite.name.replace("/", "-")
    )
    return app


def _classes(suite: EnvSuite) -> tuple[type, type, type]:
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

    import turnpoint

    class TextAction(Action):  # type: ignore[misc]
        text: str = Field(max_length=LONGEST_ACTION)
        """What the agent does."""

    class TextObservation(Observation):  # type: ignore[misc]
        text: str = ""
        """What the agent sees."""
        admissible: list[str] | None = None
        """Actions that would be accepted, where the environment can list them."""
        effective: bool = True
        """False if the action was not accepted."""
        success: bool | None = None
        """Set on the last observation."""

    class TurnpointEnvironment(Environment):  # type: ignore[misc]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self.player = Player(suite)
            self._episode: str | None = None

        def reset(
            self,
            seed: int | None = None,
            episode_id: str | None = None,
            split: str = "train",
            index: int | None = None,
            **_: Any,
        ) -> TextObservation:
            task = self.player.choose(split, index, seed)
            seen = self.player.start(task)
            self._episode = episode_id or task.id
            return TextObservation(
                text=seen.text, admissible=_list(seen.admissible), metadata={"task": task.id}
            )

        def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
            if self.player.task is None:
                raise EnvError("the environment has not been reset yet")
            step, out_of_turns = self.player.step(action.text)
            done = step.done or out_of_turns
            return TextObservation(
                text=step.observation.text,
                admissible=_list(step.observation.admissible),
                effective=step.effective,
                success=bool(step.success) if done else None,
                reward=step.reward,
                done=done,
            )

        @property
        def state(self) -> State:
            return State(episode_id=self._episode, step_count=self.player.turns)

        def close(self) -> None:
            self.player.close()

        def get_metadata(self) -> EnvironmentMetadata:
            return EnvironmentMetadata(
                name=suite.name, description=suite.instructions, version=turnpoint.__version__
            )

        def list_splits(self) -> list[str]:
            return ["train", "valid"]

        def num_tasks(self, split: str) -> int:
            return len(suite.tasks(split))

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            task = self.player.choose(split, index)
            return {"id": task.id, "index": index, "instruction": task.instruction, "type": task.type}

        def get_task_range(
            self, split: str, start: int | None = None, stop: int | None = None
        ) -> list[dict[str, Any]]:
            return [self.get_task(split, index) for index in range(self.num_tasks(split))[start:stop]]

        def list_tasks(self, split: str) -> list[dict[str, Any]]:
            if self.num_tasks(split) > MOST_LISTED:
                raise EnvError(
                    f"split '{split}' has {self.num_tasks(split)} tasks, and at most {MOST_LISTED} are listed at once; "
                    "ask for a range of them"
                )
            return self.get_task_range(split)

    return TextAction, TextObservation, TurnpointEnvironment


def _list(admissible: tuple[str, ...] | None) -> list[str] | None:
    return None if admissible is None else list(admissible)


class OpenEnvServer:
    """Serves one suite until it is closed; ``with`` starts and closes it in a thread of its own."""

    def __init__(
        self, suite: EnvSuite, *, host: str = "127.0.0.1", port: int = 0, sessions: int = 64
    ) -> None:
        """``port`` 0 takes a free one. Raises ``OSError`` if the address is taken, ``EnvDataError`` without openenv."""
        app = openenv_app(suite, sessions=sessions)
        import uvicorn

        self._socket = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
        )
        config = uvicorn.Config(app, log_level="warning", ws_max_size=4 * LONGEST_ACTION, lifespan="on")
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Address of the server, as clients take it."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve(self) -> None:
        """Answer until ``close``, or an interrupt in the main thread."""
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(10.0)
        self._socket.close()

    def __enter__(self) -> OpenEnvServer:
        self._thread = threading.Thread(target=self.serve, name="openenv", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise EnvError("the OpenEnv server did not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
