"""Update speed: rows merged into trees or into sequences against one sequence per turn.

    python -m benchmarks.update --episodes 16 --turns 15 --branches 4

Every turn's prompt holds the full history, so a row per turn computes the first turns again and again. Chains
compute an episode once, but once more for every branch that some turn has, as recoveries from mistakes do; trees
do not. All sides take the same rows of random tokens on the same untrained Qwen3 model, in alternating rounds,
and must give the same loss and gradient.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rollout import Shape, build_model, observations, options
from turnpoint.policy import ScoreRequest
from turnpoint.policy.local.memory import Budget
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.optim import Stepper
from turnpoint.policy.local.scorer import score
from turnpoint.policy.local.update import Updater
from turnpoint.policy.settings import LocalPolicySettings, Merge
from turnpoint.records import Row

SIDES: dict[str, Merge] = {"trees": "trees", "chains": "chains", "row per turn": "off"}


class Recorder(Stepper):
    """Keeps the last gradient and leaves the weights alone."""

    gradient: torch.Tensor

    def step(self, norm: float, scale: float = 1.0) -> float:
        grads = [weight.grad for weight in self.weights.values() if weight.grad is not None]
        self.gradient = torch.cat([grad.flatten() for grad in grads])
        self.zero_grad()
        return 0.0


def episode_rows(network: Network, shape: Shape, branches: int, seed: int) -> list[Row]:
    """Rows of episodes with full history, and of other responses at some turns of each.

    Old log-probs are a little off the network's own.
    """
    rng = np.random.default_rng(seed)
    requests = []
    for episode in observations(shape, seed):
        first = len(requests)
        history: list[int] = []
        for seen in episode:
            prompt = tuple(history + seen)
            response = tuple(rng.integers(1, shape.vocabulary, shape.action).tolist())
            requests.append(ScoreRequest(prompt, response))
            history = [*prompt, *response]
        for turn in rng.choice(shape.turns, size=branches, replace=False):
            response = tuple(rng.integers(1, shape.vocabulary, shape.action).tolist())
            requests.append(ScoreRequest(requests[first + turn].prompt_ids, response))
    scores = score(network, requests, temperature=1.0, token_budget=16384, context=shape.context)
    return [
        Row(
            request.prompt_ids,
            request.response_ids,
            old + 0.05 * rng.normal(size=shape.action),
            np.full(shape.action, rng.normal()),
            episode=str(i // (shape.turns + branches)),
            turn=i % (shape.turns + branches),
        )
        for i, (request, old) in enumerate(zip(requests, scores, strict=True))
    ]


def run(
    shape: Shape, *, branches: int, layers: int, width: int, rounds: int, seed: int, token_budget: int
) -> dict[str, Any]:
    """Alternate the sides and keep each one's fastest round."""
    model = build_model(shape, layers=layers, width=width, seed=seed)
    cpu = torch.device("cpu")
    rows = episode_rows(Network(copy.deepcopy(model), cpu), shape, branches, seed + 1)
    sides: dict[str, tuple[Updater, Recorder]] = {}
    for name, merge in SIDES.items():
        settings = LocalPolicySettings(model="built here", merge_rows=merge, token_budget=token_budget)
        network = Network(copy.deepcopy(model), cpu)
        recorder = Recorder(network, settings.optimizer)
        updater = Updater(network, recorder, settings, context=shape.context, seed=seed, reference=None,
            budget=Budget(settings.token_budget, "the update"),
        )  # fmt: skip
        sides[name] = (updater, recorder)
    times: dict[str, list[float]] = {name: [] for name in sides}
    metrics: dict[str, dict[str, float]] = {}
    for number in range(rounds + 1):
        for name, (updater, _) in sides.items():
            began = time.process_time()
            metrics[name] = updater.update(rows)
            if number:  # the first round warms up
                times[name].append(time.process_time() - began)
    result: dict[str, Any] = {
        "shape": vars(shape) | {"branches": branches},
        "layers": layers,
        "width": width,
        "rounds": rounds,
        "token_budget": token_budget,
    }
    for name in sides:
        names = ("tokens", "tokens_processed", "sequences", "loss")
        result[name] = {"cpu_seconds": min(times[name]), **{k: metrics[name][k] for k in names}}
        result[name]["trained_tokens_per_cpu_second"] = metrics[name]["tokens"] / min(times[name])
    single = result["row per turn"]
    expected = sides["row per turn"][1].gradient
    for name, (_, recorder) in sides.items():
        side, difference = result[name], recorder.gradient - expected
        side["ratio_cpu"] = single["cpu_seconds"] / side["cpu_seconds"]
        side["ratio_tokens"] = single["tokens_processed"] / side["tokens_processed"]
        side["gradient_relative_difference"] = float(difference.norm() / expected.norm())
    return result


def show(result: dict[str, Any]) -> Table:
    """The figures as a table."""
    table = Table(
        "rows",
        "sequences",
        "tokens processed",
        "trained tokens/CPU-s",
        "CPU s",
        "times row per turn",
        "gradient off",
    )
    for name in SIDES:
        side = result[name]
        counts = [
            f"{side[key]:.0f}" for key in ("sequences", "tokens_processed", "trained_tokens_per_cpu_second")
        ]
        table.add_row(
            name,
            *counts,
            f"{side['cpu_seconds']:.2f}",
            f"{side['ratio_cpu']:.2f}",
            f"{side['gradient_relative_difference']:.1e}",
        )
    return table


def main(arguments: list[str] | None = None) -> None:
    """Command line; JSON on standard output, a table on standard error."""
    sizes = {"episodes": 16, "turns": 15, "observation": 25, "action": 6, "branches": 0}
    a = options(__doc__, arguments, **sizes, rounds=2, token_budget=16384)
    shape = Shape(a.episodes, a.turns, a.observation, a.action, a.vocabulary)
    result = run(
        shape,
        branches=a.branches,
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
