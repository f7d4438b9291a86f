"""Scoring speed: hinted turns of episodes as trees, as chains of prompts, and one pass per request.

    python -m benchmarks.scoring --episodes 16 --turns 15 --hinted 5

An agent plays episodes with full history; then some turns of each are scored again with a hint before the last
tokens of their prompts, as methods with hints do. All sides score the same requests with the same untrained
Qwen3 model, in alternating rounds, and must agree: one request at a time, requests that extend each other as
one sequence, what begins alike once, and the latter with the sampler's cache of the episodes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rollout import Shape, build_model, observations, options
from turnpoint.policy import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.local.engine import Engine
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.scorer import score
from turnpoint.policy.settings import Merge

SIDES: dict[str, tuple[Merge, bool]] = {
    "trees, cached": ("trees", True),
    "trees": ("trees", False),
    "chains": ("chains", False),
    "each alone": ("off", False),
}
"""How requests are merged, and whether the sampler's cache is read."""
FINAL_LINE = 5
"""Prompt tokens behind a hint."""


def play(engine: Engine, shape: Shape, seed: int) -> list[list[ScoreRequest]]:
    """Episodes with full history: prompts and sampled responses ``[episode][turn]``."""
    seen = observations(shape, seed)
    episodes: list[list[ScoreRequest]] = [[] for _ in seen]
    histories: list[tuple[int, ...]] = [()] * len(seen)
    for turn in range(shape.turns):
        owner = {}
        for i, episode in enumerate(seen):
            prompt = (*histories[i], *episode[turn])
            request = SampleRequest(prompt, i + turn * len(seen), Sampling(max_tokens=shape.action), str(i))
            owner[engine.submit(request)] = (i, prompt)
        while done := engine.advance():
            for ticket, sample in done:
                i, prompt = owner.pop(ticket)
                histories[i] = prompt + sample.token_ids
                episodes[i].append(ScoreRequest(prompt, sample.token_ids))
    for i in range(len(seen)):
        engine.end_session(str(i))
    return episodes


def hinted(
    episodes: list[list[ScoreRequest]], shape: Shape, turns: int, hint: int, seed: int
) -> list[ScoreRequest]:
    """Requests of some turns of each episode with a hint of random tokens."""
    rng = np.random.default_rng(seed)
    requests = []
    for episode in episodes:
        for turn in sorted(rng.choice(len(episode), size=turns, replace=False).tolist()):
            prompt, response = episode[turn].prompt_ids, episode[turn].response_ids
            words = rng.integers(1, shape.vocabulary, hint).tolist()
            requests.append(ScoreRequest((*prompt[:-FINAL_LINE], *words, *prompt[-FINAL_LINE:]), response))
    return requests


def run(
    shape: Shape, *, turns: int, hint: int, layers: int, width: int, rounds: int, seed: int, token_budget: int
) -> dict[str, Any]:
    """Alternate the sides and keep each one's fastest round."""
    network = Network(build_model(shape, layers=layers, width=width, seed=seed), torch.device("cpu"))
    engine = Engine(network, (), context=shape.context, max_rows=shape.episodes, token_budget=token_budget)
    requests = hinted(play(engine, shape, seed + 1), shape, turns, hint, seed + 2)
    processed: Counter[str] = Counter()
    side = ""

    def count(module: Any, args: Any, kwargs: Any) -> None:
        processed[side] += kwargs["input_ids"].numel()

    handle = network.body.register_forward_pre_hook(count, with_kwargs=True)
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    values: dict[str, np.ndarray] = {}
    for number in range(rounds + 1):
        for side, (merge, cached) in SIDES.items():
            processed[side] = 0
            began = time.process_time()
            scored = score(
                network,
                requests,
                temperature=1.0,
                token_budget=token_budget,
                context=shape.context + hint,
                merge=merge,
                prefixes=engine.table if cached else None,
            )
            if number:  # the first round warms up
                times[side].append(time.process_time() - began)
            values[side] = np.concatenate(scored)
    handle.remove()
    result: dict[str, Any] = {
        "shape": vars(shape) | {"hinted": turns, "hint": hint},
        "layers": layers,
        "width": width,
        "rounds": rounds,
        "token_budget": token_budget,
        "requests": len(requests),
        "request_tokens": sum(len(r.prompt_ids) + len(r.response_ids) for r in requests),
    }
    for name in SIDES:
        result[name] = {
            "tokens_processed": processed[name],
            "cpu_seconds": min(times[name]),
            "times_chains": min(times["chains"]) / min(times[name]),
            "max_difference": float(np.abs(values[name] - values["each alone"]).max()),
        }
    return result


def show(result: dict[str, Any]) -> Table:
    """The figures as a table."""
    table = Table("requests scored", "tokens processed", "CPU s", "times chains", "max difference")
    for name in SIDES:
        side = result[name]
        table.add_row(
            name,
            str(side["tokens_processed"]),
            f"{side['cpu_seconds']:.3f}",
            f"{side['times_chains']:.2f}",
            f"{side['max_difference']:.1e}",
        )
    table.caption = f"{result['requests']} requests of {result['request_tokens']} tokens"
    return table


def main(arguments: list[str] | None = None) -> None:
    """Command line; JSON on standard output, a table on standard error."""
    sizes = {"episodes": 16, "turns": 15, "hinted": 5, "hint": 15, "observation": 25, "action": 7}
    a = options(__doc__, arguments, **sizes, rounds=3, token_budget=2048)
    result = run(
        Shape(a.episodes, a.turns, a.observation, a.action, a.vocabulary),
        turns=a.hinted,
        hint=a.hint,
        layers=a.layers,
        width=a.width,
        rounds=a.rounds,
        seed=a.seed,
        token_budget=a.token_budget,
    )
    print(json.dumps(result, indent=2))
    Console(stderr=True).print(show(result))


if __name__ == "__main__":
    main()
