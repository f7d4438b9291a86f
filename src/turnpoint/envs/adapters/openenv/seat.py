"""A game that a server plays."""

from __future__ import annotations

import json
from typing import Any

from turnpoint.envs.adapters.game import Nonsense, Shown, checked
from turnpoint.envs.adapters.host import Answer
from turnpoint.envs.adapters.openenv.client import ServerGone, ServerRefused, Session
from turnpoint.envs.adapters.openenv.settings import OpenEnvSettings

NO_ACTION = "The action must be a JSON object. Nothing happens."
UNFIT = "The server does not take such an action. Nothing happens."


class RemoteSeat:
    """Answers of a server in the form of ``host.Answer``."""

    def __init__(self, settings: OpenEnvSettings, action_field: str) -> None:
        self._settings, self._field = settings, action_field
        self._session = self._connect()
        self._sum = 0.0
        self._last: Answer = {}

    def _connect(self) -> Session:
        settings = self._settings
        return Session(
            settings.base_url, connect_seconds=settings.connect_seconds, seconds=settings.call_seconds
        )

    def reset(self, seed: int, data: dict[str, Any]) -> Answer:
        """Start a task, in the session there is or in a new one."""
        wanted = {"split": data["split"], "index": data["index"]} if "split" in data else {"seed": seed}
        arguments = {**self._settings.reset_options, **wanted}
        reused = self._session.is_open
        try:
            answer = self._session.ask("reset", arguments)
        except ServerGone:
            if not reused:  # a server may end sessions that nobody uses
                raise
            answer = self._session.ask("reset", arguments)
        self._sum = 0.0
        return self._checked(answer)

    def step(self, action: str) -> Answer | None:
        """Execute an action; None if the server does not know the session any more."""
        action = action.encode("utf-8", "replace").decode()  # half a character cannot be sent
        payload: Any = {self._field: action}
        if not self._field:
            try:
                payload = json.loads(action)
            except (ValueError, RecursionError):
                payload = None
            if not isinstance(payload, dict):
                return self._last | {"text": NO_ACTION, "reward": 0.0, "effective": False}
        if not self._session.is_open:
            return None
        try:
            return self._checked(self._session.ask("step", payload))
        except ServerRefused as error:
            if error.code != "VALIDATION_ERROR":
                raise
            return self._last | {"text": UNFIT, "reward": 0.0, "effective": False}

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _checked(self, answer: dict[str, Any]) -> Answer:
        observation = answer.get("observation")
        if not isinstance(observation, dict):
            raise Nonsense(f"the observation is a {type(observation).__name__}, not an object")
        reward, done = answer.get("reward"), answer.get("done", False)
        self._sum += reward if isinstance(reward, int | float) else 0.0
        success = observation.get("success")
        if not isinstance(success, bool):
            success = self._sum >= self._settings.success_return
        listed = observation.get("admissible") if self._settings.admissible else None
        shown = Shown(
            self._text(observation),
            reward,
            done,
            success,
            observation.get("effective") is not False,
            tuple(listed) if isinstance(listed, list) else None,
        )
        self._last = checked(shown, self._settings.max_characters)._asdict()
        return self._last

    def _text(self, observation: dict[str, Any]) -> Any:
        if self._settings.observation_field:
            return observation.get(self._settings.observation_field)
        fields = {key: value for key, value in observation.items() if key != "metadata"}
        texts = [value for value in fields.values() if isinstance(value, str)]
        if "text" in fields and isinstance(fields["text"], str):
            return fields["text"]
        return texts[0] if len(texts) == 1 else json.dumps(fields, ensure_ascii=False)
