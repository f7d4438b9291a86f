"""A tiny text game with everything the environment contract asks for, and variants that go wrong on purpose.

A corridor of dark rooms hides a key. Its room's lamp must be switched on before the key can be seen and
taken; the key opens the chest. Throwing the held key away is admissible and cannot be undone. The game is
small enough that its oracle is a formula, so tests can check every other part against it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.envs.registry import EnvSettings
from turnpoint.records import Observation, Step, Task
from turnpoint.testing import toy_game as game
from turnpoint.testing.toy_game import ToyState

KIND = "turnpoint.testing.toy_env:ToySettings"

Fault = Literal["none", "crash", "env_error", "hang"]


class ToySettings(EnvSettings):
    """The corridor game, plain or with a chosen difficulty or fault."""

    kind: str = KIND
    rooms: int = Field(default=5, ge=2)
    """Length of the corridor."""
    train_tasks: PositiveInt = 64
    """Tasks of the split ``train``."""
    valid_tasks: PositiveInt = 32
    """Tasks of the split ``valid``."""
    max_turns: PositiveInt = 20
    """Turn budget of an episode."""
    reward: float = 1.0
    """Reward of the turn that opens the chest."""
    snapshots: bool = True
    """Native snapshots; without them states are restored by replay."""
    oracle: bool = True
    """Whether distance and best actions can be asked for."""
    slip: float = Field(default=0.0, ge=0.0, le=1.0)
    """Probability that a move does nothing; above 0 the game is stochastic and no replay reproduces it."""
    fault: Fault = "none"
    """What goes wrong on turn ``fault_turn`` of every ``fault_every``-th task."""
    fault_turn: int = Field(default=2, ge=0)
    """0-based turn at which the fault strikes."""
    fault_every: PositiveInt = 1
    """The fault strikes tasks whose number is a multiple of this."""
    hang_seconds: NonNegativeFloat = 5.0
    """How long the fault ``hang`` blocks."""

    def build(self) -> ToySuite:
        return ToySuite(self)


class ToyEnv:
    """One playable corridor."""

    def __init__(self, settings: ToySettings, copy: int = 0) -> None:
        self.settings = settings
        self.capabilities = Capabilities(
            deterministic=settings.slip == 0.0,
            snapshots=settings.snapshots,
            oracle=settings.oracle,
            admissible=True,
        )
        self._copy, self._resets = copy, 0
        self._random = random.Random(0)
        self._state: ToyState | None = None
        self._task_number = 0

    @property
    def state(self) -> ToyState:
        """The current state; raises ``EnvError`` before the first reset."""
        if self._state is None:
            raise EnvError("the corridor has not been reset to a task yet")
        return self._state

    def reset(self, task: Task) -> Observation:
        if not {"chest", "key", "start"} <= set(task.data):
            raise EnvError(f"task {task.id} is not a corridor task: it has no chest, key and start")
        data = task.data
        self._state = ToyState(chest=data["chest"], key=data["key"], position=data["start"])
        self._task_number = task.seed
        self._resets += 1
        # Every reset of every copy slips in its own way: nobody can count on replaying a stochastic game.
        self._random = random.Random(f"{task.id}/{self._copy}/{self._resets}")
        return self._observe()

    def step(self, action: str) -> Step:
        state = self.state
        self._maybe_fault(state)
        if action not in game.admissible(state, self.settings.rooms):
            self._state = replace(state, turn=state.turn + 1, feedback=game.NOTHING)
            return Step(self._observe(), 0.0, state.opened, state.opened or None, effective=False)
        if action in (game.LEFT, game.RIGHT) and self._random.random() < self.settings.slip:
            self._state = replace(state, turn=state.turn + 1, feedback=game.SLIP)
            return Step(self._observe(), 0.0, False)
        self._state = game.advance(state, action)
        done = self._state.opened
        return Step(self._observe(), self.settings.reward if done else 0.0, done, True if done else None)

    def _maybe_fault(self, state: ToyState) -> None:
        settings = self.settings
        if state.turn != settings.fault_turn or self._task_number % settings.fault_every:
            return
        if settings.fault == "crash":
            raise RuntimeError("the corridor collapsed")
        if settings.fault == "env_error":
            raise EnvError("the corridor is closed")
        if settings.fault == "hang":
            time.sleep(settings.hang_seconds)

    def snapshot(self) -> ToyState:
        if not self.capabilities.snapshots:
            raise EnvError("this corridor has no snapshots; restore its states by replay")
        return self.state

    def restore(self, snapshot: Any) -> Observation:
        if not self.capabilities.snapshots:
            raise EnvError("this corridor has no snapshots; restore its states by replay")
        if not isinstance(snapshot, ToyState):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of a corridor")
        self._state = snapshot
        return self._observe()

    def distance(self) -> int | None:
        self._need_oracle()
        return game.distance(self.state)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        self._need_oracle()
        state = self.state
        if knowledge == "observed" and not (state.holds or state.lost or state.key in state.lit):
            return self._explore(state)
        now = game.distance(state)
        if not now:
            return []
        options = game.admissible(state, self.settings.rooms)
        return [action for action in options if game.distance(game.advance(state, action)) == now - 1]

    def _explore(self, state: ToyState) -> list[str]:
        """Light the nearest dark room; both ways where two are equally near."""
        here = state.position
        if here not in state.lit:
            return [game.LAMP]
        dark = [room for room in range(self.settings.rooms) if room not in state.lit]
        nearest = min(abs(room - here) for room in dark)
        ways = {game.LEFT: here - nearest in dark, game.RIGHT: here + nearest in dark}
        return [action for action, leads in ways.items() if leads]

    def _need_oracle(self) -> None:
        if not self.capabilities.oracle:
            raise EnvError("this corridor has no oracle; set oracle: true")

    def _observe(self) -> Observation:
        state = self.state
        return Observation(
            game.describe(state), game.admissible(state, self.settings.rooms), game.state_key(state)
        )

    def close(self) -> None:
        self._state = None


class ToySuite:
    """Tasks and copies of the corridor game."""

    name = "toy"
    instructions = (
        "You are in a corridor of dark rooms. Find the key and open the chest. "
        "Switch on the lamp of a room to see what is in it. Reply with one action."
    )

    def __init__(self, settings: ToySettings, env_class: type[ToyEnv] = ToyEnv) -> None:
        self.settings = settings
        self.max_turns = settings.max_turns
        self.env_class = env_class
        self._copies = 0
        self.capabilities = self.make().capabilities

    def tasks(self, split: str) -> Sequence[Task]:
        counts = {"train": (0, self.settings.train_tasks), "valid": (1_000_000, self.settings.valid_tasks)}
        if split not in counts:
            raise ValueError(f"the corridor has no split '{split}'; use train or valid")
        first, count = counts[split]
        return [self._task(first + number) for number in range(count)]

    def _task(self, seed: int) -> Task:
        draw = random.Random(f"corridor/{self.settings.rooms}/{seed}")
        chest, key, start = (draw.randrange(self.settings.rooms) for _ in range(3))
        return Task(
            id=f"toy-{seed}",
            env=self.settings.kind,
            instruction=f"Open the chest in room {chest + 1}.",
            type="here" if chest == key else "carry",
            seed=seed,
            data={"chest": chest, "key": key, "start": start},
        )

    def make(self) -> ToyEnv:
        self._copies += 1
        return self.env_class(self.settings, copy=self._copies)

    def header(self) -> dict[str, Any]:
        return {"env": self.name, "version": 1, "rooms": self.settings.rooms}

    def vocabulary_texts(self) -> Iterable[str]:
        yield from (game.START, game.NOTHING, game.SLIP, *game.FEEDBACK.values(), *game.ACTIONS)
        yield from (
            f"Room {room + 1}. Open the chest in room {room + 1}." for room in range(self.settings.rooms)
        )
        yield "You see a key. You see nothing. It is dark. You hold the key. You hold nothing."
        yield "The chest is here. The chest is open."
        yield self.instructions


def toy_suite(**changes: Any) -> ToySuite:
    """The plain game, or the one with these settings changed."""
    return ToySuite(ToySettings(**changes))


def replay_suite(**changes: Any) -> ToySuite:
    """Deterministic, but without snapshots: states come back by verified replay."""
    return toy_suite(snapshots=False, **changes)


def stochastic_suite(**changes: Any) -> ToySuite:
    """Moves fail at random and there are no snapshots: no state can be brought back."""
    return toy_suite(**{"slip": 0.3, "snapshots": False} | changes)


def crashing_suite(**changes: Any) -> ToySuite:
    """``step`` raises an unforeseen error on turn 2."""
    return toy_suite(**{"fault": "crash"} | changes)


def hanging_suite(**changes: Any) -> ToySuite:
    """``step`` blocks for ``hang_seconds`` on turn 2."""
    return toy_suite(**{"fault": "hang"} | changes)
