"""Many episodes diagnosed: seconds and memory of ``turnpoint diagnose`` on generated records.

python -m benchmarks.diagnose                     # 50,000 episodes of 5 to 15 turns, with prompts, tokens and scores
python -m benchmarks.diagnose --episodes 2000     # a quick look

The episodes are written once to --out and used again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turnpoint.records import (
    Episode,
    EpisodeWriter,
    Message,
    Observation,
    Pivot,
    StopReason,
    Task,
    Turn,
)

_TYPES = ("pick", "heat", "cool", "clean", "look", "two")


def main() -> None:
    """Generate, diagnose in a process of its own, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "turnpoint-diagnose.jsonl")
    options = parser.parse_args()
    path = options.out.with_name(f"{options.out.stem}-{options.episodes}.jsonl")
    if not path.exists():
        write_episodes(path, options.episodes)
    base = measure(["methods", "--json"])
    found = measure(["diagnose", str(path), "--detector", "report", "--detector", "logprob_drop", "--json"])
    report = json.loads(found.pop("stdout"))
    base.pop("stdout")
    print(
        json.dumps(
            {
                "episodes": report["counted"],
                "file_mb": round(path.stat().st_size / 1e6, 1),
                **found,
                "start_up": base,
                "agreement": {
                    name: d["agreement"] for name, d in report["detectors"].items() if "agreement" in d
                },
            },
            indent=1,
        )
    )


def measure(arguments: list[str]) -> dict[str, object]:
    """Run the command line; wall and CPU seconds, and its largest memory so far among all children."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "turnpoint.cli", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(cpu, 1),
        "peak_mb": round(after.ru_maxrss / 1024, 1),
        "stdout": done.stdout,
    }


def write_episodes(path: Path, count: int) -> None:
    """Failures and successes with oracle distances, reports and teacher scores, as a run would have recorded them."""
    rng = random.Random(0)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with EpisodeWriter(part) as writer:
        for number in range(count):
            writer.write(make_episode(rng, number))
    part.rename(path)


def make_episode(rng: random.Random, number: int) -> Episode:
    """One episode; the teacher's log-probs fall after the first wrong turn, and its report is mostly right."""
    length = rng.randint(5, 15)
    success = rng.random() < 0.5
    pivot = rng.randrange(length - 1) if not success and rng.random() < 0.7 else None
    distance, turns = length + 2, list[Turn]()
    tokens: tuple[int, ...] = ()
    for place in range(length):
        wrong = pivot is not None and place >= pivot
        prompt = (*tokens, *(rng.randrange(1000) for _ in range(30)))
        reply = tuple(rng.randrange(1000) for _ in range(12))
        text = f"You are in room {rng.randrange(9)}. You see a mug {place} and a shelf {number % 7}."
        turns.append(
            Turn(
                index=place,
                observation=Observation(text, ("look", "go left", "go right"), f"{place}"),
                messages=(Message("user", text),),
                prompt_ids=prompt,
                response_ids=reply,
                logprobs=tuple(round(-rng.random(), 3) for _ in reply),
                response="<action>look</action>",
                action="look",
                executed="look",
                distance=distance,
                scores={"teacher": tuple(round(-rng.random() - 0.5 * wrong, 3) for _ in reply)},
            )
        )
        tokens = prompt + reply
        distance += 1 if place == pivot else -1 if not wrong else 0
    if success:
        distance = 0
    task = Task(f"task-{number // 4}", "generated", "Put the mug on the shelf.", _TYPES[number % 6])
    episode = Episode(
        f"e{number}", task, turns, StopReason.SUCCESS if success else StopReason.MAX_TURNS, success,
        final_observation=Observation("The end."), final_distance=distance, distances_known=True,
    )  # fmt: skip
    if pivot is not None:
        said = pivot if rng.random() < 0.6 else rng.randrange(length)
        episode.pivots = [Pivot(said, "teacher", "go left", "go left")]
        episode.summary = "The first mistake named."
    return episode


if __name__ == "__main__":
    main()
