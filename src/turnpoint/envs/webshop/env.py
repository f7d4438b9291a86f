"""One shopper in the shop, behind the environment contract."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.envs.webshop.engine import Play
from turnpoint.envs.webshop.observed import Observer, Seen
from turnpoint.envs.webshop.oracle import Oracle
from turnpoint.envs.webshop.pages import State
from turnpoint.envs.webshop.settings import WebShopSettings
from turnpoint.records import Observation, Step, Task


class Desk:
    """A goal with its oracles, shared by every copy that plays it."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.oracle = Oracle(play)
        self.observer = Observer(self.oracle)


class Snapshot(NamedTuple):
    """All that changes in an episode; immutable, so taking and restoring one is a reference."""

    desk: Desk
    state: State
    seen: Seen


class WebShopEnv:
    """A shop that can be played, forked and asked for the best way on.

    Actions are ``search[words]`` and ``click[name]``, in any case; others are answered with the same page.
    """

    def __init__(
        self, settings: WebShopSettings, capabilities: Capabilities, load: Callable[[Task], Desk]
    ) -> None:
        """``load`` gives the goal of a task; it raises ``EnvError`` if the task is not one of its own."""
        self.capabilities = capabilities
        self._settings, self._load = settings, load
        self._now: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """Start ``task`` on the search page. Raises ``EnvError`` if it belongs to another catalogue."""
        self._now = Snapshot(self._load(task), State(), Seen())
        return self._observation()

    def step(self, action: str) -> Step:
        """Search or click; a purchase ends the episode."""
        desk, state, seen = self._current()
        after = None if state.page == "done" else desk.play.after(state, action)
        if after is None:
            done = state.page == "done"
            return self._step(0.0, self._success() if done else None, effective=False)
        self._now = Snapshot(desk, after, seen.with_page(after))
        if after.page != "done":
            return self._step(0.0)
        success = self._success()
        paid = self.score() if self._settings.reward == "score" else float(success)
        return self._step(self._settings.success_reward * paid, success)

    def snapshot(self) -> Snapshot:
        """The whole state; it keeps its goal alive and fits every copy of the environment."""
        return self._current()

    def restore(self, snapshot: Any) -> Observation:
        """Return to ``snapshot``."""
        if not isinstance(snapshot, Snapshot):
            raise EnvError(f"a {type(snapshot).__name__} is not a snapshot of WebShop")
        self._now = snapshot
        return self._observation()

    def distance(self) -> int | None:
        """Least number of turns to a purchase with score 1.0; None if there is none."""
        desk, state, _ = self._current()
        return desk.oracle.distance(state)

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        """Actions of a shortest way (``full``), or of a careful shopper (``observed``)."""
        desk, state, seen = self._current()
        if knowledge == "observed":
            return desk.observer.best_actions(state, seen)
        return desk.oracle.best_actions(state)

    def random_action(self, rng: random.Random) -> str:
        """A click that the page accepts or, where it can be searched, a few words of the instruction."""
        desk, state, _ = self._current()
        listed = desk.play.actions(state)
        if listed:
            return rng.choice(listed)
        words = desk.play.goal.instruction.lower().split()
        at, length = rng.randrange(len(words)), rng.randint(1, 5)
        return f"search[{' '.join(words[at : at + length])}]"

    def score(self) -> float:
        """Score of the purchase, from 0 to 1; 0.0 before one."""
        desk, state, _ = self._current()
        return desk.play.score(state).total if state.page == "done" else 0.0

    def close(self) -> None:
        """Forget the episode."""
        self._now = None

    def _current(self) -> Snapshot:
        if self._now is None:
            raise EnvError("WebShop has not been reset to a task yet")
        return self._now

    def _success(self) -> bool:
        desk, state, _ = self._current()
        return desk.play.score(state).total == 1.0

    def _step(self, reward: float, success: bool | None = None, *, effective: bool = True) -> Step:
        return Step(self._observation(), reward, success is not None, success, effective, self.score())

    def _observation(self) -> Observation:
        desk, state, _ = self._current()
        actions = () if state.page == "done" else desk.play.actions(state)
        return Observation(desk.play.text(state), actions, state_key(state))


def state_key(state: State) -> str:
    """Equal for states that play on alike: the order in which options were chosen does not count."""
    parts = (state.page, state.query, state.number, state.product, sorted(state.chosen))
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
