"""Rollout speed: sessions over a key-value pool against ``generate`` called turn by turn.

    python -m benchmarks.rollout --episodes 32 --turns 12

Both sides play the same multi-turn episodes with the same untrained Qwen3 model in one process, in alternating
rounds: every turn adds an observation of random tokens and samples an action of fixed length, so both do the
same number of tokens. The baseline is what one writes with transformers alone: all episodes in one batch,
left-padded, ``generate`` over the whole history each turn.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from turnpoint.policy import SampleRequest, Sampling
from turnpoint.policy.local.engine import Engine
from turnpoint.policy.local.network import Network


@dataclass(frozen=True)
class Shape:
    """What is played."""

    episodes: int
    turns: int
    observation: int
    """Mean observation length; lengths are uniform within a fifth of it."""
    action: int
    vocabulary: int

    @property
    def sampled(self) -> int:
        """Tokens sampled in a round."""
        return self.episodes * self.turns * self.action

    @property
    def context(self) -> int:
        """Longest history."""
        return self.turns * (self.observation * 6 // 5 + 1 + self.action)


def build_model(shape: Shape, *, layers: int, width: int, seed: int) -> Any:
    """An untrained Qwen3 without an end token: samples have exactly the asked length."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=max(2, width // 32),
        num_key_value_heads=max(1, width // 64),
        head_dim=32,
        max_position_embeddings=max(1024, shape.context),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


def observations(shape: Shape, seed: int) -> list[list[list[int]]]:
    """Random tokens ``[episode][turn]``, the same for both sides."""
    rng = np.random.default_rng(seed)
    spread = shape.observation // 5
    low, high = shape.observation - spread, shape.observation + spread + 1
    return [
        [rng.integers(1, shape.vocabulary, rng.integers(low, high)).tolist() for _ in range(shape.turns)]
        for _ in range(shape.episodes)
    ]


def play_pool(engine: Engine, shape: Shape, seed: int) -> None:
    """A round with the library's sampler; each episode goes on as soon as its turn is done."""
    seen = observations(shape, seed)
    sampling = Sampling(max_tokens=shape.action)
    owner: dict[int, tuple[int, int, tuple[int, ...]]] = {}

    def submit(episode: int, turn: int, history: tuple[int, ...]) -> None:
        prompt = (*history, *seen[episode][turn])
        request = SampleRequest(prompt, seed + episode * shape.turns + turn, sampling, f"{seed}/{episode}")
        owner[engine.submit(request)] = (episode, turn, prompt)

    for episode in range(shape.episodes):
        submit(episode, 0, ())
    while done := engine.advance():
        for ticket, sample in done:
            episode, turn, prompt = owner.pop(ticket)
            assert len(sample.token_ids) == shape.action
            if turn + 1 < shape.turns:
                submit(episode, turn + 1, prompt + sample.token_ids)
            else:
                engine.end_session(f"{seed}/{episode}")


def play_generate(model: Any, shape: Shape, seed: int) -> None:
    """A round with ``generate``: one left-padded batch per turn, the history computed again."""
    seen = observations(shape, seed)
    histories: list[list[int]] = [[] for _ in range(shape.episodes)]
    torch.manual_seed(seed)
    for turn in range(shape.turns):
        for episode, history in enumerate(histories):
            history.extend(seen[episode][turn])
        longest = max(map(len, histories))
        ids = torch.zeros(shape.episodes, longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for line, history in enumerate(histories):
            ids[line, longest - len(history) :] = torch.tensor(history)
            mask[line, longest - len(history) :] = 1
        with torch.inference_mode():
            output = model.generate(
                input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, top_p=1.0,
                max_new_tokens=shape.action, min_new_tokens=shape.action,
            )  # fmt: skip
        for history, tokens in zip(histories, output[:, longest:].tolist(), strict=True):
            history.extend(tokens)


def measure(play: Callable[[int], None], seed: int) -> tuple[float, float]:
    """CPU and wall seconds of one round."""
    cpu, wall = time.process_time(), time.perf_counter()
    play(seed)
    return time.process_time() - cpu, time.perf_counter() - wall


def run(shape: Shape, *, layers: int, width: int, rounds: int, seed: int) -> dict[str, Any]:
    """Alternate both sides and keep each one's fastest round."""
    model = build_model(shape, layers=layers, width=width, seed=seed)
    engine = Engine(
        Network(copy.deepcopy(model), torch.device("cpu")),
        (),
        context=shape.context,
        max_rows=shape.episodes,
        token_budget=16384,
    )
    sides = {
        "pool": lambda s: play_pool(engine, shape, s),
        "generate": lambda s: play_generate(model, shape, s),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, play in sides.items():
            figure = measure(play, seed + number)
            if number:  # the first round warms up
                times[name].append(figure)
    result: dict[str, Any] = {"shape": vars(shape), "layers": layers, "width": width, "rounds": rounds}
    for name, figures in times.items():
        cpu, wall = min(c for c, _ in figures), min(w for _, w in figures)
        result[name] = {
            "cpu_seconds": cpu,
            "wall_seconds": wall,
            "tokens_per_cpu_second": shape.sampled / cpu,
            "episodes_per_cpu_second": shape.episodes / cpu,
            "tokens_per_second": shape.sampled / wall,
        }
    result["ratio_cpu"] = result["generate"]["cpu_seconds"] / result["pool"]["cpu_seconds"]
    result["ratio_wall"] = result["generate"]["wall_seconds"] / result["pool"]["wall_seconds"]
    result["work"] = {name: count / (rounds + 1) for name, count in sorted(engine.counts.items())}
    return result


def show(result: dict[str, Any]) -> Table:
    """The figures as a table."""
    table = Table("sampler", "tokens/CPU-s", "episodes/CPU-s", "CPU s", "wall s", "times generate")
    for name, ratio in (("pool", result["ratio_cpu"]), ("generate", 1.0)):
        side = result[name]
        cells = [
            side[k]
            for k in ("tokens_per_cpu_second", "episodes_per_cpu_second", "cpu_seconds", "wall_seconds")
        ]
        table.add_row(
            name, f"{cells[0]:.0f}", f"{cells[1]:.2f}", f"{cells[2]:.2f}", f"{cells[3]:.2f}", f"{ratio:.2f}"
        )
    return table


def options(doc: str | None, arguments: list[str] | None, **numbers: int) -> argparse.Namespace:
    """What the speed benchmarks of a model take: ``numbers`` with their defaults, and the model's; sets threads."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    model = {"vocabulary": 256, "layers": 2, "width": 128, "seed": 0, "threads": 1}
    for name, default in (numbers | model).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(parsed.threads)
    return parsed


def main(arguments: list[str] | None = None) -> None:
    """Command line; JSON on standard output, a table on standard error."""
    a = options(__doc__, arguments, episodes=32, turns=12, observation=25, action=6, rounds=3)
    shape = Shape(a.episodes, a.turns, a.observation, a.action, a.vocabulary)
    result = run(shape, layers=a.layers, width=a.width, rounds=a.rounds, seed=a.seed)
    print(json.dumps(result, indent=2))
    Console(stderr=True).print(show(result))


if __name__ == "__main__":
    main()
