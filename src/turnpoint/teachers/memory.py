"""Oracle answers, remembered by what was executed since the task began."""

from __future__ import annotations

import math

from turnpoint.envs.protocol import Knowledge
from turnpoint.envs.replay import Replay
from turnpoint.records import Task


class OracleMemory:
    """Answers at the nodes of a tree of executed actions.

    In a deterministic environment a state, what the agent has seen of it included, is a function of the task
    and the actions executed so far, so that episodes of one task share the answers of their common beginning.
    """

    def __init__(self, limit: int = 200_000) -> None:
        self.limit = limit
        """Nodes after which everything is forgotten."""
        self.distances: dict[int, int | None] = {}
        self.best: dict[tuple[int, Knowledge], list[str]] = {}
        self._children: dict[tuple[int, str], int] = {}
        self._roots: dict[int, tuple[Task, int]] = {}
        self._count = 0

    def path(self, task: Task, executed: list[str]) -> list[int]:
        """Nodes [len(executed) + 1] of the states before, between and after the actions."""
        if self._count > self.limit:
            self._forget()
        # Tasks are told apart by identity (and kept, so that none is reused): ids may repeat between splits.
        if id(task) not in self._roots:
            self._roots[id(task)] = (task, self._next())
        nodes = [self._roots[id(task)][1]]
        for action in executed:
            step = (nodes[-1], action)
            if step not in self._children:
                self._children[step] = self._next()
            nodes.append(self._children[step])
        return nodes

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _forget(self) -> None:
        self.distances.clear()
        self.best.clear()
        self._children.clear()
        self._roots.clear()
        self._count = 0


class Walk:
    """Oracle questions about the recorded states of one episode; the environment moves only when it must."""

    def __init__(self, replay: Replay, memory: OracleMemory) -> None:
        self.replay = replay
        self.episode = replay.episode
        turns = self.episode.turns
        whole = not turns or turns[0].index == 0
        self._memory = memory if whole and replay.env.capabilities.deterministic else OracleMemory()
        self._nodes = self._memory.path(self.episode.task, [turn.executed for turn in turns])

    def distance(self, turn: int) -> int | None:
        """L(s) before ``turn`` (``len(turns)``: after the last); recorded ones are used where they exist."""
        episode = self.episode
        if episode.distances_known:
            return episode.turns[turn].distance if turn < len(episode.turns) else episode.final_distance
        node = self._nodes[turn]
        if node not in self._memory.distances:
            self.replay.seek(turn)
            self._memory.distances[node] = self.replay.env.distance()
        return self._memory.distances[node]

    def cost(self, turn: int) -> float:
        """L(s_{t+1}) − L(s_t); infinite if the turn made the task impossible, 0 where it already was."""
        before, after = self.distance(turn), self.distance(turn + 1)
        if before is None:
            return 0.0
        return math.inf if after is None else float(after - before)

    def best_actions(self, turn: int, knowledge: Knowledge) -> list[str]:
        """Best actions before ``turn``, best first."""
        key = (self._nodes[turn], knowledge)
        if key not in self._memory.best:
            self.replay.seek(turn)
            self._memory.best[key] = self.replay.env.best_actions(knowledge)
        return self._memory.best[key]
