"""What environments cost: start-up, reset, step, snapshot, restore and memory.

    python -m benchmarks.environments --markdown                       # every environment that is ready, a table
    python -m benchmarks.environments alfworld games=data/alfworld --episodes 10 --markdown
    python -m benchmarks.environments --products 1000000               # WebShop with a generated catalogue of that size

Each environment is measured in a process of its own, on the first tasks of the split ``valid``, played by the agent of
``turnpoint eval --agent random``. Times are CPU, of child processes too: means, and the longest step. ``start`` ends
with the first reset. ``restore`` goes back to a snapshot or, where there are none, replays the whole
episode. Memory is what the process holds more than one that has only imported turnpoint, with its children.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError, apply_overrides
from turnpoint.envs import Env, EnvDataError, EnvSuite, env_registry
from turnpoint.envs.family import children_cpu, family_memory
from turnpoint.records import Task
from turnpoint.training.scripted import random_chooser

Line = dict[str, Any]


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
    measured = [in_process("measure", kind, options.overrides, options.episodes) for kind in kinds]
    lines = [line for line in measured if "not_ready" not in line]
    for line in measured:
        if "not_ready" in line:
            print(f"{line['env']}: not ready: {line['not_ready']}", file=sys.stderr)
    print(table(lines) if options.markdown else json.dumps(lines, indent=1))


def measure(kind: str, overrides: Sequence[str], episodes: int) -> Line:
    """Figures of an environment, or why it is not ready here (an extra or its data is missing)."""
    memory, began = family_memory(), time.process_time()
    try:
        suite = env_registry.parse(apply_overrides({"kind": kind}, list(overrides))).build()
        tasks = list(suite.tasks("valid")[:episodes])
        children = children_cpu()
        first = suite.make()
        first.reset(tasks[0])
        first.close()
    except (ConfigError, EnvDataError, ImportError, ValueError) as error:
        return {"env": kind, "not_ready": str(error).splitlines()[0][:150]}
    started, times = time.process_time() - began + children_cpu() - children, Times()
    turns = play(suite, tasks, times)
    return {
        "env": kind, "start_s": round(started, 2), "reset_ms": times.mean("reset"), "step_ms": times.mean("step"),
        "worst_step_ms": times.worst("step"), "snapshot_ms": times.mean("snapshot"),
        "restore_ms": times.mean("restore"),
        "native": suite.capabilities.snapshots,
        "memory_mib": round((family_memory() - memory) / 2**20, 1), "episodes": len(tasks), "turns": turns,
    }  # fmt: skip


class Times:
    """CPU milliseconds by what was done."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], Any]) -> Any:
        """Call and note how long it took."""
        children, began = children_cpu(), time.process_time()
        result = call()
        own = time.process_time() - began
        self.taken.setdefault(name, []).append(1000 * (own + max(0.0, children_cpu() - children)))
        return result

    def mean(self, name: str) -> float:
        """Mean."""
        taken = self.taken.get(name, [0.0])
        return round(sum(taken) / len(taken), 4)

    def worst(self, name: str) -> float:
        """Longest."""
        return round(max(self.taken.get(name, [0.0])), 2)


def play(suite: EnvSuite, tasks: Sequence[Task], times: Times) -> int:
    """One episode of a random agent on each task, with a snapshot and its restoration before every step; turns."""
    env, native, turns = suite.make(), suite.capabilities.snapshots, 0
    for task in tasks:
        choose = random_chooser(env, random.Random(f"benchmark/{task.id}"))
        observation = times.of("reset", lambda task=task: env.reset(task))
        actions: list[str] = []
        for _ in range(suite.max_turns):
            action = choose(observation)
            if action is None:
                break
            if native:
                state = times.of("snapshot", env.snapshot)
                times.of("restore", lambda state=state: env.restore(state))
            step = times.of("step", lambda action=action: env.step(action))
            actions.append(action)
            observation = step.observation
            if step.done:
                break
        turns += len(actions)
        if not native and suite.capabilities.deterministic:
            times.of("restore", lambda task=task, actions=actions: replay(env, task, actions))
    env.close()
    return turns


def replay(env: Env, task: Task, actions: Sequence[str]) -> None:
    """An episode once more."""
    env.reset(task)
    for action in actions:
        env.step(action)


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
    play(suite, suite.tasks("valid")[:episodes], times)
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


def table(lines: Sequence[Line]) -> str:
    """The figures in Markdown."""
    rows = [
        "| environment | start s | reset ms | step ms (longest) | snapshot ms | restore ms | memory MiB | turns |",
        "|---" * 8 + "|",
    ]
    for line in lines:
        snapshot = f"{line['snapshot_ms']:.3f}" if line["native"] else "–"
        restore = f"{line['restore_ms']:.3f}" + ("" if line["native"] else " (replay)")
        cells = [
            line["env"], f"{line['start_s']:.2f}", f"{line['reset_ms']:.3f}",
            f"{line['step_ms']:.3f} ({line['worst_step_ms']:.1f})", snapshot, restore, f"{line['memory_mib']:.0f}",
            str(line["turns"]),
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
