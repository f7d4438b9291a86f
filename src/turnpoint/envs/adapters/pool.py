"""Where games live: in this process, or in a few others, shared by all copies and replaced when one is lost."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from turnpoint.envs.adapters.game import Nonsense
from turnpoint.envs.adapters.host import Answer, Host
from turnpoint.envs.child import Child
from turnpoint.envs.protocol import EnvError

CHILD = "turnpoint.envs.adapters.host:ChildHost"
_numbers = itertools.count(1)
_OPEN_SECONDS = 300.0
"""Making a game: importing its library on a busy machine takes its time."""


class Room:
    """One host and the way to call it."""

    def __init__(self, host: Host | Child) -> None:
        self._host = host
        self._left: list[int] = []
        self._lock = threading.Lock()

    def open(
        self, number: int, settings: dict[str, Any], patience: float, seed: int, data: dict[str, Any]
    ) -> Answer:
        """Make a game and start a task; games that were left are closed."""
        with self._lock:
            left, self._left = self._left, []
        limit = max(patience, _OPEN_SECONDS)
        answer: Answer = self.call("open", number, settings, patience, left, seed, data, seconds=limit)
        return answer

    def call(self, method: str, *arguments: Any, seconds: float | None = None) -> Any:
        """Raises ``EnvError`` where the game raises, hangs, crashes or answers nonsense."""
        if isinstance(self._host, Child):
            answer = self._host.call(method, *arguments, seconds=seconds)
        else:
            try:
                answer = getattr(self._host, method)(*arguments)
            except EnvError:
                raise
            except Exception as error:
                raise EnvError(f"{type(error).__name__}: {error}") from error
        if isinstance(answer, dict) and "nonsense" in answer:
            raise Nonsense(answer["nonsense"])
        return answer

    def leave(self, number: int) -> None:
        """Give a game up. In another process it is closed with the next ``open``: a call would start a process."""
        if isinstance(self._host, Host):
            self._host.close(number)
            return
        with self._lock:
            self._left.append(number)


class Pool:
    """Rooms of one suite. ``processes`` 0: one room in this process."""

    def __init__(self, processes: int, seconds: float, process_mb: int) -> None:
        self._seconds = seconds
        self.children = [Child(CHILD, seconds, resident_mb=process_mb) for _ in range(processes)]
        hosts: list[Host | Child] = [*self.children] or [Host()]
        self._rooms = itertools.cycle([Room(host) for host in hosts])

    def seat(self, settings: dict[str, Any]) -> Seat:
        """A place for one game, in the next room in turn."""
        return Seat(next(self._rooms), settings, self._seconds)

    def close(self) -> None:
        """End the processes; they start again when somebody plays."""
        for child in self.children:
            child.close()


class Seat:
    """One game in a room; it is made when it is first reset, and anew where it is gone."""

    def __init__(self, room: Room, settings: dict[str, Any], patience: float) -> None:
        self._room, self._settings, self._patience = room, settings, patience
        self._number: int | None = None

    def reset(self, seed: int, data: dict[str, Any]) -> Answer:
        """Start a task. Raises ``EnvError`` where the game cannot be made, hangs, crashes or answers nonsense."""
        if self._number is not None:
            answer: Answer = self._room.call("reset", self._number, seed, data)
            if "lost" not in answer:
                return answer
        self._number = next(_numbers)
        return self._room.open(self._number, self._settings, self._patience, seed, data)

    def step(self, action: str) -> Answer | None:
        """Execute an action; None if the game is gone with its process."""
        answer: Answer = self._room.call("step", self._number, action)
        return None if "lost" in answer else answer

    def close(self) -> None:
        """Give the game up."""
        if self._number is not None:
            self._room.leave(self._number)
        self._number = None
