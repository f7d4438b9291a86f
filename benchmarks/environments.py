"""What environments cost: start-up, reset, step, snapshot, restore and memory, and how often scripted agents succeed.

    python -m benchmarks.environments                                  # every environment that is ready, a table
    python -m benchmarks.environments webshop catalogue=FILE --episodes 300 --markdown
    python -m benchmarks.environments --products 1000000               # WebShop with a generated catalogue of that size

Times are CPU milliseconds, means over the episodes of a random agent. ``oracle`` plays best actions with full
knowledge, ``observed`` with what the episode has shown, ``random`` an admissible action (where none are listed: one of
a few plain ones); each is played on the same tasks of the split ``valid``. Memory is what the process gained, in MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from turnpoint.config import ConfigError, apply_overrides
from turnpoint.envs import Env, EnvDataError, EnvSuite, env_registry
from turnpoint.records import Observation, Task

Chooser = Callable[[Env, Observation, random.Random], str | None]


@dataclass
class Figures:
    """One line of the table."""

    env: str
    start_s: float
    reset_ms: float
    step_ms: float
    worst_step_ms: float
    snapshot_ms: float | None
    restore_ms: float | None
    memory_mib: float
    oracle: float | None
    observed: float | None
    random: float
    episodes: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", nargs="?", help="one environment; default: every one that is ready")
    parser.add_argument("overrides", nargs="*", help="its settings, as setting=value")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--markdown", action="store_true", help="a table instead of JSON")
    parser.add_argument("--products", type=int, help="measure WebShop with so many generated products")
    parser.add_argument("--keep", type=Path, help="keep that catalogue in this folder")
    options = parser.parse_args()
    if options.products:
        with tempfile.TemporaryDirectory() as scratch:
            folder = options.keep or Path(scratch)
            print(json.dumps(large_shop(options.products, options.episodes, folder), indent=1))
        return
    kinds = [options.kind] if options.kind else env_registry.names()
    lines = [
        line for kind in kinds if (line := measure(kind, options.overrides, options.episodes)) is not None
    ]
    print(table(lines) if options.markdown else json.dumps([asdict(line) for line in lines], indent=1))


def measure(kind: str, overrides: Sequence[str], episodes: int) -> Figures | None:
    """Figures of an environment; None if it is not ready here (an extra or its data is missing)."""
    memory, began = resident(), time.process_time()
    try:
        suite = env_registry.parse(apply_overrides({"kind": kind}, list(overrides))).build()
        tasks = list(suite.tasks("valid")[:episodes])
    except (ConfigError, EnvDataError, ImportError, ValueError) as error:
        print(f"{kind}: not ready: {str(error).splitlines()[0][:150]}", flush=True, file=sys.stderr)
        return None
    start = time.process_time() - began
    times = Times()
    wins = play(suite, tasks, choose_random, times)
    oracle = play(suite, tasks, choose_best, Times()) if suite.capabilities.oracle else None
    observed = play(suite, tasks, choose_observed, Times()) if suite.capabilities.oracle else None
    return Figures(
        kind, round(start, 2), times.mean("reset"), times.mean("step"), times.worst("step"),
        times.mean("snapshot") if suite.capabilities.snapshots else None,
        times.mean("restore") if suite.capabilities.snapshots else None,
        round(resident() - memory, 1), oracle, observed, wins, len(tasks),
    )  # fmt: skip


class Times:
    """CPU milliseconds by what was done."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], object]) -> object:
        """Call and note how long it took."""
        began = time.process_time()
        result = call()
        self.taken.setdefault(name, []).append(1000 * (time.process_time() - began))
        return result

    def mean(self, name: str) -> float:
        """Mean."""
        taken = self.taken.get(name, [0.0])
        return round(sum(taken) / len(taken), 4)

    def worst(self, name: str) -> float:
        """Longest."""
        return round(max(self.taken.get(name, [0.0])), 2)


def play(suite: EnvSuite, tasks: Sequence[Task], choose: Chooser, times: Times) -> float:
    """Share of the tasks that an agent solves within the turn budget."""
    env, won = suite.make(), 0
    for task in tasks:
        rng = random.Random(f"benchmark/{task.id}")
        observation: Observation = times.of("reset", lambda task=task: env.reset(task))  # type: ignore[assignment,misc]
        for _ in range(suite.max_turns):
            action = choose(env, observation, rng)
            if action is None:
                break
            if suite.capabilities.snapshots:
                state = times.of("snapshot", env.snapshot)
                times.of("restore", lambda state=state: env.restore(state))  # type: ignore[misc]
            step = times.of("step", lambda action=action: env.step(action))  # type: ignore[misc]
            observation = step.observation  # type: ignore[attr-defined]
            if step.done:  # type: ignore[attr-defined]
                won += bool(step.success)  # type: ignore[attr-defined]
                break
    env.close()
    return round(won / max(1, len(tasks)), 3)


def choose_random(env: Env, observation: Observation, rng: random.Random) -> str | None:
    """Any listed action; where none are listed, a search or an answer made of words that are shown."""
    if observation.admissible:
        return rng.choice(observation.admissible)
    words = [word.strip(".,:;?!()\"'") for word in observation.text.split() if word.isascii()] or ["look"]
    some = " ".join(rng.sample(words, min(3, len(words))))
    return rng.choice([f"search[{some}]", f"<search>{some}</search>", f"<answer>{words[-1]}</answer>"])


def choose_best(env: Env, observation: Observation, rng: random.Random) -> str | None:
    """The oracle's first action."""
    return next(iter(env.best_actions("full")), None)


def choose_observed(env: Env, observation: Observation, rng: random.Random) -> str | None:
    """The observer's first action."""
    return next(iter(env.best_actions("observed")), None)


def large_shop(products: int, episodes: int, folder: Path) -> dict[str, object]:
    """WebShop with a large generated catalogue, prepared into a file as the released one is.

    Preparing and playing happen in processes of their own, so that the memory of each is its own. The file stays in
    ``folder``, and is used again if it is there.
    """
    path = folder / f"webshop_{products}.sqlite"
    prepared = {} if path.is_file() else in_process("prepare_shop", products, str(path))
    return {"products": products, **prepared, "file_mib": round(path.stat().st_size / 2**20, 1)} | in_process(
        "play_shop", str(path), episodes
    )


def prepare_shop(products: int, path: str) -> dict[str, object]:
    """Write the catalogue; seconds of CPU and peak memory."""
    from turnpoint.envs.webshop.generator import generate, tag
    from turnpoint.envs.webshop.prepare import write_catalogue

    began = time.process_time()
    store = write_catalogue(
        generate(products, 0), Path(path), tag, {"nouns": "generated", "source": {"products": products}}
    )
    return {
        "goals": store.items, "prepare_cpu_s": round(time.process_time() - began, 1), "prepare_peak_mib": peak_memory()
    }  # fmt: skip


def play_shop(path: str, episodes: int) -> dict[str, object]:
    """Start on a prepared catalogue, search it, and play; nothing else has been done in this process."""
    began, memory = time.process_time(), peak_memory()
    suite = env_registry.parse(
        {"kind": "webshop", "catalogue": path, "valid_tasks": max(2, episodes)}
    ).build()
    started = time.process_time() - began
    times = Times()
    for task in suite.tasks("valid")[:episodes]:
        for length in (3, 6, None):  # a few words of the instruction, and all of it
            words = " ".join(task.instruction.split(", and price")[0].split()[:length])
            times.of("search", lambda words=words: suite.search(words.lower()))  # type: ignore[misc, attr-defined]
    play(suite, suite.tasks("valid")[:episodes], choose_random, times)
    return {
        "start_cpu_s": round(started, 2), "search_ms": times.mean("search"), "worst_search_ms": times.worst("search"),
        "searches": len(times.taken["search"]), "reset_ms": times.mean("reset"), "step_ms": times.mean("step"),
        "play_memory_mib": round(peak_memory() - memory, 1), "play_peak_mib": peak_memory(),
    }  # fmt: skip


def in_process(function: str, *arguments: object) -> dict[str, object]:
    """What a function of this module gives in a fresh process."""
    code = (
        "import json, sys; from benchmarks import environments as here; "
        "print(json.dumps(getattr(here, sys.argv[1])(*json.loads(sys.argv[2]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, function, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_memory() -> float:
    """Most resident memory that this process has had, MiB."""
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def resident() -> float:
    """Resident memory of this process, MiB; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def table(lines: Sequence[Figures]) -> str:
    """The figures in Markdown."""
    head = (
        "| environment | start s | reset ms | step ms (worst) | snapshot / restore ms | memory MiB | oracle | observed "
        "| random | episodes |"
    )
    rows = [head, "|---" * 10 + "|"]
    for line in lines:
        states = "–" if line.snapshot_ms is None else f"{line.snapshot_ms:.4f} / {line.restore_ms:.3f}"
        won = (line.oracle, line.observed, line.random)
        shares = ["–" if share is None else f"{100 * share:.0f} %" for share in won]
        cells = [
            line.env, f"{line.start_s:.2f}", f"{line.reset_ms:.3f}", f"{line.step_ms:.3f} ({line.worst_step_ms:.1f})",
            states, f"{line.memory_mib:.0f}", *shares, str(line.episodes),
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
