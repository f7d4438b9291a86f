"""Bring an environment back into a recorded state, and prove that it is the recorded one."""

from __future__ import annotations

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


def _excerpts(expected: Any, got: Any) -> tuple[str, str]:
    """Both values as text, shortened around the first place where they differ."""
    a, b = repr(expected), repr(got)
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - _SHOWN // 2) if max(len(a), len(b)) > _SHOWN else 0
    return _cut(a, start), _cut(b, start)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return ("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else "")


def restore_turn(env: Env, episode: Episode, turn: int) -> Observation:
    """Put ``env`` into the state before ``turn`` (``len(episode.turns)``: after the last one).

    A native snapshot is used where the episode holds one and the environment takes it; otherwise the task is
    reset and the executed actions are repeated. Every observation on the way is compared with the recorded
    one: text, admissible actions, state key (where both have one) and whether the episode is over.

    Raises ``ReplayMismatch`` on any difference, ``EnvError`` where the state cannot be brought back at all,
    and ``IndexError`` for a turn the episode does not have.
    """
    if not 0 <= turn <= len(episode.turns):
        raise IndexError(f"episode {episode.id} has {len(episode.turns)} turns; there is no state {turn}")
    snapshot = snapshot_at(episode, turn)
    if snapshot is not None and env.capabilities.snapshots:
        observation = env.restore(snapshot)
        if turn < len(episode.turns) or episode.final_observation is not None:
            _compare(episode, turn, episode.observation_at(turn), observation)
        return observation
    return _replay(env, episode, turn)


def snapshot_at(episode: Episode, turn: int) -> Any:
    """The snapshot before ``turn``, or None where none is held."""
    return episode.turns[turn].snapshot if turn < len(episode.turns) else episode.final_snapshot


def _replay(env: Env, episode: Episode, turn: int) -> Observation:
    if not env.capabilities.deterministic:
        raise EnvError(
            f"episode {episode.id} cannot be restored to turn {turn}: the environment "
            f"of task {episode.task.id} is not deterministic and no snapshot "
            "was kept; restart it from the beginning instead"
        )
    if episode.turns and episode.turns[0].index != 0:
        raise EnvError(
            f"episode {episode.id} cannot be replayed: it starts at turn {episode.turns[0].index} and does "
            "not hold the turns before; replay the episode it was forked from"
        )
    if turn == len(episode.turns) and episode.turns and episode.final_observation is None:
        raise EnvError(
            f"episode {episode.id} has no observation after its last turn to verify a replay against"
        )
    observation = env.reset(episode.task)
    if episode.turns or episode.final_observation is not None:
        _compare(episode, 0, episode.observation_at(0), observation)
    for index, past in enumerate(episode.turns[:turn]):
        step = env.step(past.executed)
        observation = step.observation
        _compare(episode, index + 1, episode.observation_at(index + 1), observation)
        if step.done != past.done:
            raise ReplayMismatch(episode.id, index + 1, "done", past.done, step.done)
    return observation


def _compare(episode: Episode, turn: int, expected: Observation, got: Observation) -> None:
    if expected.text != got.text:
        raise ReplayMismatch(episode.id, turn, "text", expected.text, got.text)
    if expected.admissible != got.admissible:
        raise ReplayMismatch(episode.id, turn, "admissible actions", expected.admissible, got.admissible)
    if None not in (expected.state_key, got.state_key) and expected.state_key != got.state_key:
        raise ReplayMismatch(episode.id, turn, "state key", expected.state_key, got.state_key)
