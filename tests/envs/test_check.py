"""The check passes honest environments and fails each planted fault, naming it."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from turnpoint.envs.check import CHECKS, Check, CheckReport, check_env
from turnpoint.envs.protocol import Capabilities, EnvError, Knowledge
from turnpoint.records import Observation, Step, Task
from turnpoint.testing import (
    ToyEnv,
    ToySettings,
    ToySuite,
    crashing_suite,
    replay_suite,
    stochastic_suite,
    toy_suite,
)

# Planted faults travel to another process as pickles: it must find this module under the name it has here.
sys.path.append(str(Path(__file__).resolve().parents[1]))


def failed(report: CheckReport) -> dict[str, str]:
    return {check.name: check.detail for check in report.failures}


@pytest.mark.parametrize(
    "suite",
    [
        toy_suite(),
        toy_suite(rooms=2),
        replay_suite(),
        stochastic_suite(),
        stochastic_suite(snapshots=True),
        toy_suite(oracle=False),
    ],
    ids=["plain", "small", "replay", "stochastic", "stochastic-snapshots", "no-oracle"],
)
def test_honest_environments_pass(suite: ToySuite) -> None:
    report = check_env(suite, quick=True)
    assert failed(report) == {}
    assert report.ok
    assert [check.name for check in report.checks] == list(CHECKS)


def test_the_memory_proof_says_how_much_was_played() -> None:
    (check,) = check_env(ToySuite(ToySettings(), Unlisted), quick=True, only=["memory"]).checks
    found = re.search(r"over 100 resets, (\d+) of (\d+) steps accepted", check.detail)
    assert found
    assert 0.8 < int(found[1]) / int(found[2]) < 1.0


def test_plain_game_skips_nothing_and_every_proof_tried_something() -> None:
    report = check_env(toy_suite(), tasks=4)
    assert not any(check.skipped for check in report.checks)
    assert all(check.figure > 0 for check in report.checks if check.name != "memory")


def test_what_does_not_apply_is_skipped_with_the_reason() -> None:
    skipped = {c.name: c.detail for c in check_env(stochastic_suite(), quick=True).checks if c.skipped}
    assert {"replay", "fork", "oracle path"} <= skipped.keys()
    assert "not deterministic" in skipped["replay"]


class Nondeterministic(ToyEnv):
    """Claims to be deterministic, but a clock-like number is shown."""

    counter: ClassVar[random.Random] = random.Random(0)

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, text=f"{seen.text} {self.counter.random()}")


class OtherProcess(ToyEnv):
    """Text depends on the hash seed of the process."""

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, text=f"{seen.text} {hash('corridor') % 1000}")


class LeavesTraces(ToyEnv):
    """A reset depends on what was played before in the same copy."""

    def reset(self, task: Task) -> Observation:
        seen = super().reset(task)
        return replace(seen, text=f"{seen.text} {self._resets % 2}")


@dataclass
class Ledger:
    """Mutable state."""

    visits: int = 0


class SharesState(ToyEnv):
    """A snapshot holds the live game's mutable ledger."""

    def reset(self, task: Task) -> Observation:
        self.ledger = Ledger()
        return super().reset(task)

    def step(self, action: str) -> Step:
        self.ledger.visits += 1
        return super().step(action)

    def snapshot(self) -> Any:
        return (self.state, self.ledger)

    def restore(self, snapshot: Any) -> Observation:
        self._state, self.ledger = snapshot
        return self._observe()

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, text=f"{seen.text} Turn {self.ledger.visits}.")


class ForgetsTask(ToyEnv):
    """A snapshot lacks what a reset set up: it only works in the copy that took it."""

    def reset(self, task: Task) -> Observation:
        self.name = task.id
        return super().reset(task)

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, text=f"{seen.text} {self.name}")


class OffByOne(ToyEnv):
    """Distances are one too large once the key is held."""

    def distance(self) -> int | None:
        found = super().distance()
        return None if found is None else found + self.state.holds


class MissingBest(ToyEnv):
    """Waits where it should go left."""

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        best = super().best_actions(knowledge)
        return ["wait" if action == "go left" else action for action in best]


class InadmissibleBest(ToyEnv):
    """Observers are told to do what is not admissible."""

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        best = super().best_actions(knowledge)
        return best if knowledge == "full" else [action.upper() for action in best]


class GoesInCircles(ToyEnv):
    """Observers wait for ever."""

    def best_actions(self, knowledge: Knowledge = "full") -> list[str]:
        best = super().best_actions(knowledge)
        return best if knowledge == "full" or not best else ["wait"]


class HopefulOracle(ToyEnv):
    """The oracle takes a lost key for a lying one."""

    def distance(self) -> int | None:
        return 7 if self.state.lost else super().distance()


class Leaks(ToyEnv):
    """Keeps a line of every reset for ever."""

    kept: ClassVar[list[str]] = []

    def reset(self, task: Task) -> Observation:
        seen = super().reset(task)
        self.kept.append(f"{self._resets} {seen.text}" * 4)
        return seen


class LeaksFiles(ToyEnv):
    """Opens a file at every reset and never closes it."""

    def reset(self, task: Task) -> Observation:
        if self._resets < 200:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        return super().reset(task)


opened: list[int] = []


class LeaksThreads(ToyEnv):
    """Starts a thread at every reset."""

    def reset(self, task: Task) -> Observation:
        if self._resets % 25 == 0:
            threading.Thread(target=finish.wait, daemon=True).start()
        return super().reset(task)


finish = threading.Event()


class ListsTooMuch(ToyEnv):
    """Lists an action that is not accepted."""

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, admissible=(*(seen.admissible or ()), "fly"))


class ListsTwice(ToyEnv):
    """Lists an action twice."""

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, admissible=(*(seen.admissible or ()), "wait"))


class RaisesOnJunk(ToyEnv):
    """An unknown action is an exception."""

    def step(self, action: str) -> Step:
        if action not in (self._observe().admissible or ()):
            raise KeyError(action)
        return super().step(action)


class RaisesOnEmpty(ToyEnv):
    """Reads the first word of an action without looking."""

    def step(self, action: str) -> Step:
        _ = action.split()[0]
        return super().step(action)


class AcceptsJunk(ToyEnv):
    """Every text counts as executed."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), effective=True)


class ConstantKey(ToyEnv):
    """One key for all states."""

    def _observe(self) -> Observation:
        return replace(super()._observe(), state_key="here")


class KeyWithoutLamps(ToyEnv):
    """The key leaves out a part of the state that admissible actions do not show: which rooms are lit."""

    def _observe(self) -> Observation:
        seen = super()._observe()
        state = self.state
        return replace(
            seen, state_key=f"{state.position}|{state.holds}|{state.lost}|{state.position in state.lit}"
        )


class KeyOfObject(ToyEnv):
    """The key is an address in memory."""

    def _observe(self) -> Observation:
        return replace(super()._observe(), state_key=str(id(self)))


class NoOutcome(ToyEnv):
    """The last step does not say whether it was a success."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), success=None)


class RaisesAfterEnd(ToyEnv):
    """A step after the end is an unforeseen exception."""

    def step(self, action: str) -> Step:
        if self.state.opened:
            raise ZeroDivisionError
        return super().step(action)


class NeverDone(ToyEnv):
    """Success is not the end."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), done=False, success=None)


class SilentSnapshots(ToyEnv):
    """Snapshots are not claimed, but asking for one gives nothing instead of an error."""

    def snapshot(self) -> Any:
        return None


class OtherClaims(ToyEnv):
    """A copy claims more than its suite."""

    def __init__(self, settings: ToySettings, copy: int = 0) -> None:
        super().__init__(settings, copy)
        self.capabilities = Capabilities(copy % 2 == 0, True, True, True)


class UnknownWord(ToyEnv):
    """Shows a word that the vocabulary lacks."""

    def _observe(self) -> Observation:
        seen = super()._observe()
        return replace(seen, text=f"{seen.text} Antidisestablishmentarianism.")


class Unlisted(ToyEnv):
    """Lists nothing, and draws what can be done: honest. Its faults show only to somebody who plays it."""

    def __init__(self, settings: ToySettings, copy: int = 0) -> None:
        super().__init__(settings, copy)
        self.capabilities = replace(self.capabilities, admissible=False, oracle=False)

    def _observe(self) -> Observation:
        return replace(super()._observe(), admissible=None)

    def random_action(self, rng: random.Random) -> str:
        return rng.choice(super()._observe().admissible or ("wait",))


class UnlistedSharesState(Unlisted, SharesState):
    """The ledger of a snapshot counts what is accepted."""

    def step(self, action: str) -> Step:
        before, step = self.ledger.visits, super().step(action)
        self.ledger.visits = before + step.effective
        return replace(step, observation=self._observe())


class UnlistedLeaks(Unlisted):
    """Keeps a line of every action that is accepted."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        if step.effective:
            Leaks.kept.append(f"{self._resets} {step.observation.text}" * 4)
        return step


class GrowsOnce(ToyEnv):
    """Makes a table larger once, late, as the interpreter does with the one of its names."""

    table: ClassVar[list[bytes]] = []

    def reset(self, task: Task) -> Observation:
        if self._resets == 120 and not self.table:
            self.table.append(bytes(1_000_000))
        return super().reset(task)


def test_what_grows_only_once_is_no_leak() -> None:
    try:
        assert failed(check_env(ToySuite(ToySettings(), GrowsOnce), quick=True, only=["memory"])) == {}
        assert GrowsOnce.table
    finally:
        GrowsOnce.table.clear()


class UnlistedKey(Unlisted, KeyWithoutLamps):
    """As its base, without listing what can be done."""


def test_an_honest_environment_that_lists_nothing_passes() -> None:
    assert failed(check_env(ToySuite(ToySettings(), Unlisted), quick=True)) == {}


FAULTS: list[tuple[type[ToyEnv], dict[str, Any], str, str]] = [
    (Nondeterministic, {}, "seeds", "text differs"),
    (OtherProcess, {}, "other process", "in another process"),
    (LeavesTraces, {}, "seeds", "reset again"),
    (SharesState, {}, "fork", "does not come back"),
    (ForgetsTask, {}, "fork", "does not come back"),
    (OffByOne, {}, "oracle path", "led from distance"),
    (OffByOne, {}, "oracle neighbours", "distance"),
    (MissingBest, {}, "oracle neighbours", "is missing from best_actions"),
    (HopefulOracle, {}, "oracle neighbours", "no best action"),
    (InadmissibleBest, {}, "observed path", "is not admissible"),
    (InadmissibleBest, {}, "observed states", "is not admissible"),
    (GoesInCircles, {}, "observed path", "did not end within"),
    (Leaks, {}, "memory", "bytes of Python memory"),
    (LeaksFiles, {}, "memory", "open files"),
    (LeaksThreads, {}, "memory", "threads"),
    (ListsTooMuch, {}, "admissible actions", "'fly' was not accepted"),
    (ListsTwice, {}, "admissible actions", "listed twice"),
    (RaisesOnJunk, {}, "junk actions", "raised KeyError"),
    (RaisesOnEmpty, {}, "junk actions", "raised IndexError"),
    (AcceptsJunk, {}, "junk actions", "was accepted"),
    (ConstantKey, {}, "state keys", "other admissible actions"),
    (KeyWithoutLamps, {}, "state keys", "have state key"),
    (KeyOfObject, {}, "replay", "state_key differs"),
    (NoOutcome, {}, "endings", "success is None"),
    (RaisesAfterEnd, {}, "endings", "ZeroDivisionError"),
    (NeverDone, {}, "oracle path", "done is False at distance 0"),
    (SilentSnapshots, {"snapshots": False}, "capabilities", "must raise EnvError"),
    (OtherClaims, {}, "capabilities", "a copy claims"),
    (UnlistedSharesState, {}, "fork", "does not come back"),
    (UnlistedLeaks, {}, "memory", "bytes of Python memory"),
    (UnlistedKey, {"rooms": 3}, "state keys", "have state key"),
    (UnknownWord, {}, "vocabulary", "antidisestablishmentarianism"),
]


@pytest.mark.parametrize(
    ("env_class", "settings", "check", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_planted_fault_is_found(
    env_class: type[ToyEnv], settings: dict[str, Any], check: str, said: str
) -> None:
    suite = ToySuite(ToySettings(**settings), env_class)
    finish.clear()
    try:
        report = check_env(suite, tasks=6, quick=True, only=[check])
    finally:
        finish.set()
        while opened:
            os.close(opened.pop())
        Leaks.kept.clear()
        gc.collect()
    assert not report.ok
    assert said in failed(report)[check]


def test_fault_shows_in_the_checks_it_concerns_only() -> None:
    report = check_env(ToySuite(ToySettings(), GoesInCircles), quick=True)
    assert set(failed(report)) == {"observed path"}


def test_crash_is_reported_not_raised() -> None:
    report = check_env(crashing_suite(), quick=True)
    assert "corridor collapsed" in failed(report)["replay"]


class EmptySuite(ToySuite):
    def tasks(self, split: str) -> list[Task]:
        return []


class DoubledSuite(ToySuite):
    def tasks(self, split: str) -> list[Task]:
        return [*super().tasks(split)] * 2


class ObjectSuite(ToySuite):
    def tasks(self, split: str) -> list[Task]:
        return [replace(task, data={**task.data, "hidden": (1, 2)}) for task in super().tasks(split)]


class RedrawnSuite(ToySuite):
    draws: ClassVar[int] = 0

    def tasks(self, split: str) -> list[Task]:
        type(self).draws += 1
        return [replace(task, instruction=str(self.draws)) for task in super().tasks(split)]


class LocalSuite(ToySuite):
    """Cannot be pickled; its settings can."""

    def __init__(self, settings: ToySettings) -> None:
        super().__init__(settings)
        self.lock = threading.Lock()


class BareSuite(LocalSuite):
    """Can neither be pickled nor built again."""

    def __init__(self, settings: ToySettings) -> None:
        super().__init__(settings)
        self.settings = None  # type: ignore[assignment]

    def _task(self, seed: int) -> Task:
        self.settings, kept = ToySettings(), self.settings
        try:
            return super()._task(seed)
        finally:
            self.settings = kept

    def tasks(self, split: str) -> list[Task]:
        return [self._task(seed) for seed in range(5)]

    def make(self) -> ToyEnv:
        return ToyEnv(ToySettings())


@pytest.mark.parametrize(
    ("suite_class", "said"),
    [
        (EmptySuite, "no task to try"),
        (DoubledSuite, "equal ids"),
        (ObjectSuite, "changes when it goes through JSON"),
        (RedrawnSuite, "differs between two calls"),
    ],
)
def test_faulty_tasks_are_found(suite_class: type[ToySuite], said: str) -> None:
    report = check_env(suite_class(ToySettings()), quick=True, only=["tasks"])
    assert said in failed(report)["tasks"]


def test_suite_that_cannot_be_pickled_is_built_again_from_its_settings() -> None:
    (check,) = check_env(LocalSuite(ToySettings()), quick=True, only=["other process"]).checks
    assert (check.ok, check.skipped, check.figure) == (True, False, 3)
    (check,) = check_env(BareSuite(ToySettings()), quick=True, only=["other process"]).checks
    assert check.skipped
    assert "settings" in check.detail


def test_report_is_plain_json_and_progress_is_told() -> None:
    told: list[Check] = []
    report = check_env(toy_suite(), quick=True, only=["tasks", "seeds"], progress=told.append)
    assert told == report.checks
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is True
    assert [check["name"] for check in data["checks"]] == ["tasks", "seeds"]


def test_unknown_check_is_named() -> None:
    with pytest.raises(ValueError, match="no check 'forks'"):
        check_env(toy_suite(), only=["forks"])


class ClosedSuite(ToySuite):
    def vocabulary_texts(self) -> list[str]:
        raise EnvError("products have open names")


def test_open_language_is_no_fault() -> None:
    (check,) = check_env(ClosedSuite(ToySettings()), quick=True, only=["vocabulary"]).checks
    assert check.skipped
