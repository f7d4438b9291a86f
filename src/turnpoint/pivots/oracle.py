"""Oracle pivots (PivotOPD section 3): turns after which the task is farther from done than before."""

from __future__ import annotations

from itertools import pairwise

from turnpoint.envs import Env, EnvError
from turnpoint.envs.replay import Replay
from turnpoint.records import Episode, RecordError


def distances(episode: Episode) -> list[int | None]:
    """L before every turn and after the last one [T + 1]; None = the task cannot be completed from there.

    Raises ``RecordError`` if the episode was played without measuring distances.
    """
    if not episode.distances_known:
        raise RecordError(
            f"episode {episode.id} has no oracle distances; play it with eval.measure=true in an environment "
            "with an oracle"
        )
    return [*(turn.distance for turn in episode.turns), episode.final_distance]


def oracle_pivots(episode: Episode) -> list[int]:
    """0-based turns t with L(s_{t+1}) > L(s_t), becoming unsolvable included; none after that."""
    path = distances(episode)
    pivots = []
    for turn, (before, after) in enumerate(pairwise(path)):
        if before is None:
            break
        if after is None or after > before:
            pivots.append(turn)
    return pivots


def first_oracle_pivot(episode: Episode) -> int | None:
    """The first oracle pivot, or None."""
    pivots = oracle_pivots(episode)
    return pivots[0] if pivots else None


def wasted_turns(episode: Episode) -> int | None:
    """Turns played after the first oracle pivot; None without one."""
    first = first_oracle_pivot(episode)
    return None if first is None else len(episode.turns) - 1 - first


def measure_distances(env: Env, episode: Episode) -> None:
    """Replay a recorded episode and put the oracle's distances on record in it.

    Raises ``EnvError`` without an oracle, ``ReplayMismatch`` if the episode cannot be reproduced; the record is
    changed only if all went well.
    """
    if episode.turns and episode.final_observation is None:
        raise EnvError(
            f"episode {episode.id} has no observation after its last turn to verify a replay against"
        )
    replay = Replay(env, episode)
    path = []
    for place in range(len(episode.turns) + 1):
        replay.seek(place)
        path.append(env.distance())
    for turn, value in zip(episode.turns, path, strict=False):
        turn.distance = value
    episode.final_distance, episode.distances_known = path[-1], True
