"""Proofs about processes: another one sees the same, and this one does not grow."""

from __future__ import annotations

import gc
import os
import pickle
import random
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnpoint.envs.checks.walks import Bench, CheckFailed, CheckSkipped, Outcome, choose_any, digest, record
from turnpoint.envs.family import family_memory
from turnpoint.envs.protocol import Env, EnvSuite
from turnpoint.envs.registry import EnvSettings
from turnpoint.records import Task

_BYTES_PER_RESET = 256
"""Python memory a reset may keep; one leaked observation is more."""
_RSS_PER_RESET = 32_768
_TIME_OUT = 600.0
_STEPS = 3
"""Turns after each reset of the memory proof."""


def other_process(bench: Bench) -> Outcome:
    """A walk in another process, with another hash seed, shows the same to the letter."""
    bench.need(deterministic=True)
    here = digests(bench.suite, bench.tasks, bench.length)
    script = "from turnpoint.envs.checks.process import child; child()"
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=_packed(bench),
        capture_output=True,
        env=environment,
        timeout=_TIME_OUT,
        check=False,
    )
    if done.returncode:
        raise CheckFailed(f"the other process failed: {done.stderr.decode(errors='replace')[-400:]}")
    there = pickle.loads(done.stdout)
    for task, expected, got in zip(bench.tasks, here, there, strict=True):
        if expected != got:
            raise CheckFailed(
                f"task {task.id}: the same actions show something else in another process; a common cause is "
                "hash() of a text, or the order of a set"
            )
    return f"{len(here)} walks", len(here)


def _packed(bench: Bench) -> bytes:
    """What the child needs: the suite itself or, where it cannot be pickled, its settings."""
    suite: Any = bench.suite
    tasks = [(t.id, t.env, t.instruction, t.type, t.domain, t.seed, dict(t.data)) for t in bench.tasks]
    try:
        packed = pickle.dumps(suite)
    except Exception as error:
        settings = getattr(suite, "settings", None)
        if not isinstance(settings, EnvSettings):
            raise CheckSkipped(
                f"the suite can neither be pickled ({error}) nor built again from a 'settings' attribute"
            ) from error
        packed = pickle.dumps(settings)
    return pickle.dumps((sys.path, packed, tasks, bench.length))


def child() -> None:
    """Body of the other process: digests of the walks, pickled, on stdout."""
    path, packed, tasks, length = pickle.loads(sys.stdin.buffer.read())
    sys.path[:] = path
    suite = pickle.loads(packed)
    if isinstance(suite, EnvSettings):
        suite = suite.build()
    result = digests(suite, [Task(*fields) for fields in tasks], length)
    sys.stdout.buffer.write(pickle.dumps(result))


def digests(suite: EnvSuite, tasks: Sequence[Task], length: int) -> list[str]:
    """Fingerprint of a random walk through each task."""
    env = suite.make()
    try:
        return [digest(record(env, task, choose_any, length)) for task in tasks]
    finally:
        env.close()


def memory(bench: Bench) -> Outcome:
    """Five hundred resets (a hundred if quick) with a few drawn steps leave nothing behind.

    Half as many come first and fill caches, which may be kept; the resets that count repeat the same plays. Where they
    leave something, they are played once more: a leak grows again, a table of the interpreter's that became larger does
    not.
    """
    resets = 100 if bench.quick else 500
    env = bench.suite.make()
    with _tracing():
        _play(bench, env, resets // 2)
        for _ in range(2):
            before = _usage()
            played = [_play(bench, env, resets // 2) for _ in range(2)]
            grown = [now - then for now, then in zip(_usage(), before, strict=True)]
            if not (fault := _too_much(grown, resets)):
                break
    env.close()
    if fault:
        raise CheckFailed(fault)
    steps, accepted = map(sum, zip(*played, strict=True))
    kept = grown[0] / resets
    return f"{kept:.1f} bytes kept per reset over {resets} resets, {accepted} of {steps} steps accepted", kept


def _too_much(grown: Sequence[int], resets: int) -> str:
    """What was left behind, if it is too much; ``grown`` as ``_usage`` tells."""
    limits = (
        (_BYTES_PER_RESET * resets, "bytes of Python memory"),
        (_RSS_PER_RESET * resets, "bytes of process memory"),
        (2, "open files"),
        (2, "threads"),
    )
    for left, (allowed, what) in zip(grown, limits, strict=True):
        if left > allowed:
            return f"{resets} resets left {left} {what} behind ({left / resets:.1f} each)"
    return ""


def _play(bench: Bench, env: Env, resets: int) -> tuple[int, int]:
    """The same plays at every call; gives how many steps there were, and how many were accepted."""
    steps = accepted = 0
    for number in range(resets):
        draw = random.Random(f"memory/{number}")
        observation = env.reset(_back_and_forth(bench.tasks, number))
        for _ in range(_STEPS):
            step = env.step(choose_any(env, observation, draw))
            steps, accepted = steps + 1, accepted + step.effective
            observation = step.observation
            if step.done:
                break
    return steps, accepted


def _back_and_forth(tasks: Sequence[Task], number: int) -> Task:
    """Up and down the tasks, each twice: where fewer of them stay loaded, some are dropped, but not at every reset."""
    at = number // 2 % (2 * len(tasks))
    return tasks[min(at, 2 * len(tasks) - 1 - at)]


@contextmanager
def _tracing() -> Iterator[None]:
    was = tracemalloc.is_tracing()
    if not was:
        tracemalloc.start()
    try:
        yield
    finally:
        if not was:
            tracemalloc.stop()


def _usage() -> tuple[int, int, int, int]:
    """Python bytes, resident bytes (of child processes too), open files, threads; 0 where the system does not tell."""
    gc.collect()
    files = Path("/proc/self/fd")
    opened = len(list(files.iterdir())) if files.exists() else 0
    return tracemalloc.get_traced_memory()[0], family_memory(), opened, threading.active_count()
