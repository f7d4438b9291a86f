"""Recorded walks that the proofs look at, and the comparisons they share."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from turnpoint.envs.draw import draw_action
from turnpoint.envs.protocol import Env, EnvError, EnvSuite
from turnpoint.envs.replay import restore_turn
from turnpoint.records import Episode, Observation, Step, StopReason, Task, Turn

JUNK = (
    "",
    " ",
    "dance on the table",
    "<action></action>",
    "\x00\x1b[31m\r\n\t",
    "go to " * 50,
    "🗝️ \ud800 ключ",
    '{"a": [}%s%n{0} \' " \\ ; DROP TABLE',
    "../../etc/passwd",
    "1e999",
    "(" * 2000,
    '<tool_call>\n{"name": "no_such_tool", "arguments": {"x": 1e999}}\n</tool_call>',
    '<tool_call>{"name": ',
)
"""Texts that no environment should accept, and none may be broken by."""
HUGE = "x" * 1_000_000

Outcome = tuple[str, float]
"""What a proof tried, in words, and its main number."""
Chooser = Callable[[Env, Observation, random.Random], str]


class CheckFailed(Exception):
    """The contract is broken; the message says where, what was expected and what came."""


class CheckSkipped(Exception):
    """The proof does not apply to this environment; the message says why."""


@dataclass(slots=True)
class Walk:
    """One recorded episode with every answer of the environment."""

    episode: Episode
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For messages."""
        return f"task {self.episode.task.id}"


@dataclass
class Bench:
    """What the proofs work on: a suite, some of its tasks, and how much to try."""

    suite: EnvSuite
    tasks: Sequence[Task]
    quick: bool = False

    @property
    def length(self) -> int:
        """Longest walk in turns."""
        return min(self.suite.max_turns, 12 if self.quick else 30)

    @property
    def native(self) -> bool:
        """Whether states come back by snapshot: cheap enough to try everything."""
        return self.suite.capabilities.snapshots

    @cached_property
    def walks(self) -> list[Walk]:
        """A random and (with an oracle) a mostly sensible walk through every task."""
        choosers: list[Chooser] = [choose_any]
        if self.suite.capabilities.oracle:
            choosers.append(choose_sensibly)
        env = self.suite.make()
        try:
            return [record(env, task, choose, self.length) for task in self.tasks for choose in choosers]
        finally:
            env.close()

    def need(self, *, deterministic: bool = False, restorable: bool = False, oracle: bool = False) -> None:
        """Raise ``CheckSkipped`` if the environment does not claim what a proof is about."""
        can = self.suite.capabilities
        if deterministic and not can.deterministic:
            raise CheckSkipped("the environment is not deterministic")
        if restorable and not (can.snapshots or can.deterministic):
            raise CheckSkipped("states cannot be brought back: no snapshots and not deterministic")
        if oracle and not can.oracle:
            raise CheckSkipped("the environment has no oracle")

    def sample(self, items: Sequence[Any], most: int = 5) -> Sequence[Any]:
        """All items where states come back cheaply, else a few spread evenly."""
        if self.native or len(items) <= most:
            return items
        return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def choose_any(env: Env, observation: Observation, draw: random.Random) -> str:
    """Something to try, sometimes junk; junk alone where actions are neither listed nor drawn."""
    found = None if draw.random() < 0.1 else draw_action(env, observation, draw)
    return draw.choice(JUNK) if found is None else found


def choose_sensibly(env: Env, observation: Observation, draw: random.Random) -> str:
    """Mostly a best action, so that late states of the task are seen too."""
    best = env.best_actions("full") if draw.random() < 0.7 else []
    return draw.choice(best) if best else choose_any(env, observation, draw)


def choose_best(env: Env, observation: Observation, draw: random.Random) -> str:
    """The first best action; any action where there is none."""
    best = env.best_actions("full")
    return best[0] if best else choose_any(env, observation, draw)


def record(env: Env, task: Task, choose: Chooser, length: int) -> Walk:
    """Play up to ``length`` turns; choices come from the task's id, so any process makes the same ones."""
    draw = random.Random(f"check/{task.id}/{choose.__name__}")
    observation = env.reset(task)
    walk = Walk(Episode(id=f"check/{task.id}/{choose.__name__}", task=task, stop=StopReason.MAX_TURNS))
    keep = env.capabilities.snapshots
    for index in range(length):
        turn = Turn(index, observation, snapshot=env.snapshot() if keep else None)
        turn.executed = choose(env, observation, draw)
        step = env.step(turn.executed)
        turn.reward, turn.done, turn.effective = step.reward, step.done, step.effective
        walk.episode.turns.append(turn)
        walk.steps.append(step)
        observation = step.observation
        if step.done:
            break
    walk.episode.final_observation = observation
    walk.episode.final_snapshot = env.snapshot() if keep else None
    return walk


def seek(env: Env, walk: Walk, index: int) -> Observation:
    """Bring the state before turn ``index`` back, verified."""
    try:
        return restore_turn(env, walk.episode, index)
    except EnvError as error:
        raise CheckFailed(
            f"{walk.name}: the state before turn {index} does not come back: {error}"
        ) from error


def same_observation(where: str, expected: Observation, got: Observation) -> None:
    """Raise ``CheckFailed`` with the first field that differs."""
    for name in ("text", "admissible", "state_key"):
        a, b = getattr(expected, name), getattr(got, name)
        if a != b:
            raise CheckFailed(f"{where}: {name} differs: expected {short(a)}, got {short(b)}")


def same_step(where: str, expected: Step, got: Step) -> None:
    """Raise ``CheckFailed`` with the first field that differs."""
    same_observation(where, expected.observation, got.observation)
    for name in ("reward", "done", "success", "effective"):
        a, b = getattr(expected, name), getattr(got, name)
        if a != b:
            raise CheckFailed(f"{where}: {name} differs: expected {a}, got {b}")


def digest(walk: Walk) -> str:
    """Fingerprint of everything the environment showed in a walk."""
    shown = [_shown(turn.observation) for turn in walk.episode.turns]
    answers = [(_shown(s.observation), s.reward, s.done, s.success, s.effective) for s in walk.steps]
    return hashlib.sha256(repr((shown, answers)).encode("utf-8", "backslashreplace")).hexdigest()


def _shown(observation: Observation) -> tuple[Any, ...]:
    return observation.text, observation.admissible, observation.state_key


def short(value: Any, limit: int = 160) -> str:
    """``repr`` cut in the middle."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 :]}"
