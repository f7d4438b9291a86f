"""Prove that an environment keeps its contract: what ``turnpoint envs check NAME`` runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from turnpoint.envs.checks import basics, forks, oracle, process
from turnpoint.envs.checks.walks import Bench, CheckFailed, CheckSkipped, Outcome
from turnpoint.envs.protocol import EnvSuite
from turnpoint.records import Task


@dataclass(frozen=True, slots=True)
class Check:
    """One proof and how it went."""

    name: str
    ok: bool
    """True also where the proof was skipped."""
    detail: str
    """What was tried; or where the contract is broken; or why the proof does not apply."""
    figure: float = 0.0
    """The proof's main number: how much was tried, turns on average, or bytes kept per reset."""
    seconds: float = 0.0
    """CPU time it took."""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All proofs of one environment."""

    env: str
    checks: list[Check]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(check.ok for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        """The proofs that failed."""
        return [check for check in self.checks if not check.ok]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: ``{"env", "ok", "checks": [one object per proof]}``."""
        return {"env": self.env, "ok": self.ok, "checks": [asdict(check) for check in self.checks]}


CHECKS: dict[str, Callable[[Bench], Outcome]] = {
    "tasks": basics.tasks,
    "capabilities": basics.capabilities,
    "seeds": basics.seeds,
    "other process": process.other_process,
    "replay": basics.replay,
    "fork": forks.forks,
    "junk actions": basics.junk,
    "admissible actions": basics.admissible,
    "endings": basics.endings,
    "state keys": forks.state_keys,
    "oracle path": oracle.full_path,
    "oracle neighbours": oracle.full_neighbours,
    "observed path": oracle.observed_path,
    "observed states": oracle.observed_states,
    "vocabulary": basics.vocabulary,
    "memory": process.memory,
}
"""Every proof by name, in the order in which they run."""


def check_env(
    suite: EnvSuite,
    *,
    tasks: Sequence[Task] | int | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
    progress: Callable[[Check], None] | None = None,
) -> CheckReport:
    """Run every proof on ``suite``; nothing an environment does is raised.

    Args:
        tasks: The tasks to try, or how many (spread over both splits); None = 8, or 3 if ``quick``.
        quick: Shorter walks and fewer resets.
        only: Names of ``CHECKS`` to run; empty = all.
        progress: Called after each proof.
    """
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise ValueError(f"there is no check '{unknown[0]}'; checks are {', '.join(CHECKS)}")
    checks: list[Check] = []
    try:
        bench = Bench(suite, _choose(suite, tasks, quick), quick)
    except Exception as error:
        checks.append(Check("tasks", False, _unforeseen(error)))
        if progress is not None:
            progress(checks[-1])
        return CheckReport(suite.name, checks)
    for name, proof in CHECKS.items():
        if only and name not in only:
            continue
        checks.append(_run(name, proof, bench))
        if progress is not None:
            progress(checks[-1])
    return CheckReport(suite.name, checks)


def _run(name: str, proof: Callable[[Bench], Outcome], bench: Bench) -> Check:
    begin = time.process_time()
    ok, skipped, figure = True, False, 0.0
    try:
        detail, figure = proof(bench)
    except CheckSkipped as reason:
        detail, skipped = str(reason), True
    except CheckFailed as failure:
        detail, ok = str(failure), False
    except Exception as error:
        detail, ok = _unforeseen(error), False
    return Check(name, ok, detail, figure, round(time.process_time() - begin, 3), skipped)


def _unforeseen(error: Exception) -> str:
    return f"the environment raised {type(error).__name__}: {str(error)[:500]}"


def _choose(suite: EnvSuite, tasks: Sequence[Task] | int | None, quick: bool) -> list[Task]:
    """The given tasks, or some spread evenly over both splits."""
    if tasks is not None and not isinstance(tasks, int):
        chosen = list(tasks)
    else:
        count = tasks if tasks is not None else 3 if quick else 8
        train, valid = suite.tasks("train"), suite.tasks("valid")
        first = _spread(train, count - count // 3)
        chosen = [*first, *_spread(valid, count - len(first))]
    if not chosen:
        raise ValueError("there is no task to try: both splits are empty, or none was asked for")
    return chosen


def _spread(items: Sequence[Task], count: int) -> list[Task]:
    """``count`` items at even distances, or all if there are fewer."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]
