"""Bring an environment back into a recorded state, and prove that it is the recorded one."""

from __future__ import annotations

import pickle
from typing import Any

from turnpoint.envs.protocol import Env, EnvError
from turnpoint.records import Episode, Observation

_SHOWN = 300


class ReplayMismatch(EnvError):
    """A restored state does not show what was recorded there."""

    def __init__(self, episode: str, turn: int, field: str, expected: Any, got: Any) -> None:
        self.episode, self.turn, self.field = episode, turn, field
        self.expected, self.got = _excerpts(expected, got)
        super().__init__(
            f"replay of episode {episode} differs before turn {turn} in {field}: "
            f"expected {self.expected}, got {self.got}"
        )


class Sent(bytes):
    """A snapshot in the form in which it came from a copy of the environment in another process."""

    def opened(self) -> Any:
        """The snapshot itself. Raises ``EnvError`` where it cannot be had here.

        No pickle comes from outside: workers of this run made these bytes, and records on disk hold no snapshots.
        """
        try:
            return pickle.loads(self)
        except Exception as error:  # pickle raises whatever the state's classes raise
            raise EnvError(f"a worker's snapshot cannot be opened in this process: {error}") from error


def restore_turn(env: Env, episode: Episode, turn: int, elsewhere: bool = False) -> Observation:
    """Put ``env`` into the state before ``turn`` (``len(episode.turns)``: after the last one).

    A native snapshot is used where the episode holds one and the environment takes it; otherwise the task is
    reset and the executed actions are repeated. Every observation on the way is compared with the recorded
    one: text, admissible actions, state key (where both have one) and whether the episode is over.
    ``elsewhere``: see ``Replay``.

    Raises ``ReplayMismatch`` on any difference, ``EnvError`` where the state cannot be brought back at all,
    and ``IndexError`` for a turn the episode does not have.
    """
    return Replay(env, episode, elsewhere=elsewhere).seek(turn)


class Replay:
    """One copy of an environment moving through a recorded episode.

    Without snapshots, going on from a state it is already in costs only the turns in between. Nobody else
    may step the environment between two calls.
    """

    def __init__(self, env: Env, episode: Episode, *, elsewhere: bool = False) -> None:
        """``elsewhere``: ``env`` is in another process, where snapshots that were sent are opened."""
        self.env = env
        self.episode = episode
        self.elsewhere = elsewhere
        self._at: int | None = None

    def seek(self, turn: int) -> Observation:
        """Go to the state before ``turn``; see ``restore_turn``."""
        episode, count = self.episode, len(self.episode.turns)
        if not 0 <= turn <= count:
            raise IndexError(f"episode {episode.id} has {count} turns; there is no state {turn}")
        at, self._at = self._at, None
        snapshot = episode.turns[turn].snapshot if turn < count else episode.final_snapshot
        if snapshot is not None and self.env.capabilities.snapshots:
            if isinstance(snapshot, Sent) and not self.elsewhere:
                snapshot = snapshot.opened()
            observation = self.env.restore(snapshot)
            self._compare(turn, observation)
        else:
            self._refuse_blind(turn)
            observation = self._replay(at, turn)
        self._at = turn
        return observation

    def _refuse_blind(self, turn: int) -> None:
        """Refuse what could be re-executed but not proved."""
        episode, task = self.episode, self.episode.task
        if not self.env.capabilities.deterministic:
            raise EnvError(
                f"episode {episode.id} cannot be restored to turn {turn}: the environment of task {task.id} "
                "is not deterministic and no snapshot was kept; restart the task from its beginning instead"
            )
        if episode.turns and episode.turns[0].index != 0:
            raise EnvError(
                f"episode {episode.id} cannot be replayed: it starts at turn {episode.turns[0].index} and "
                "does not hold the turns before; replay the episode it was forked from"
            )
        if turn == len(episode.turns) and episode.turns and episode.final_observation is None:
            raise EnvError(f"episode {episode.id} has no observation after its last turn to verify against")

    def _replay(self, at: int | None, turn: int) -> Observation:
        if at is None or at >= turn:
            observation = self.env.reset(self.episode.task)
            self._compare(0, observation)
            at = 0
        for index in range(at, turn):
            past = self.episode.turns[index]
            step = self.env.step(past.executed)
            observation = step.observation
            self._compare(index + 1, observation)
            if step.done != past.done:
                raise ReplayMismatch(self.episode.id, index + 1, "done", past.done, step.done)
        return observation

    def _compare(self, turn: int, got: Observation) -> None:
        episode = self.episode
        if turn == len(episode.turns) and episode.final_observation is None:
            return
        expected = episode.observation_at(turn)
        if expected.text != got.text:
            raise ReplayMismatch(episode.id, turn, "text", expected.text, got.text)
        if expected.admissible != got.admissible:
            raise ReplayMismatch(episode.id, turn, "admissible actions", expected.admissible, got.admissible)
        if None not in (expected.state_key, got.state_key) and expected.state_key != got.state_key:
            raise ReplayMismatch(episode.id, turn, "state key", expected.state_key, got.state_key)


def _excerpts(expected: Any, got: Any) -> tuple[str, str]:
    """Both values as text, shortened around the first place where they differ."""
    a, b = repr(expected), repr(got)
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - _SHOWN // 2) if max(len(a), len(b)) > _SHOWN else 0
    return _cut(a, start), _cut(b, start)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return ("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else "")
