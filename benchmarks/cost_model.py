"""The cost model fitted on this machine, and compared with a whole training step of it.

    python -m benchmarks.cost_model --out profile.json
    turnpoint plan grpo_household --gpu profile.json --gpus 1

Measures, in CPU time of one thread, how long an untrained Qwen3 model takes to decode, read, score and update at
several sizes and batches, and what the driver costs for one turn; fits the coefficients of ``turnpoint.planning``;
then plays and trains a step of household games with full history and says how far the model is off, part by part.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rollout import Shape, build_model
from benchmarks.update import Recorder, episode_rows
from turnpoint.envs import env_registry
from turnpoint.planning import Cluster, Efficiency, Gpu, ModelShape, Workload, step_time
from turnpoint.policy import Sample, SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.local.engine import Engine
from turnpoint.policy.local.memory import Budget
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.scorer import score
from turnpoint.policy.local.update import Updater
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy

VOCABULARY = 256
CPU = torch.device("cpu")


def shape_of(model: Any) -> ModelShape:
    """The shape of a built model."""
    config = model.config
    count = float(sum(weight.numel() for weight in model.parameters()))
    return ModelShape(
        "built here", config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads,
        config.head_dim, count, count,
    )  # fmt: skip


def cpu_seconds(work: Callable[[], Any], rounds: int) -> float:
    """Least CPU time of a few rounds, after one that warms up."""
    times = []
    for number in range(rounds + 1):
        began = time.process_time()
        work()
        if number:
            times.append(time.process_time() - began)
    return min(times)


def decoding(model: Any, batch: int, context: int, tokens: int, rounds: int) -> float:
    """CPU seconds of one decoding step over ``batch`` sequences of ``context`` tokens."""
    engine = Engine(Network(copy.deepcopy(model), CPU), (), context=4096, max_rows=batch, token_budget=16384)
    rng, call = np.random.default_rng(0), iter(range(10**9))

    def play(length: int) -> None:
        for i in range(batch):
            prompt = tuple(rng.integers(1, VOCABULARY, context).tolist())
            engine.submit(SampleRequest(prompt, next(call), Sampling(max_tokens=length), f"{i}"))
        while engine.advance():
            pass
        engine.forget()

    long, short = (cpu_seconds(lambda n=n: play(n), rounds) for n in (tokens + 1, 1))
    return max(long - short, 1e-9) / tokens


def scoring(model: Any, sequences: int, length: int, rounds: int) -> float:
    """CPU seconds of scoring so many sequences without a common beginning."""
    network, rng = Network(copy.deepcopy(model), CPU), np.random.default_rng(1)
    ids = [tuple(rng.integers(1, VOCABULARY, length).tolist()) for _ in range(sequences)]
    requests = [ScoreRequest(one[: length // 2], one[length // 2 :]) for one in ids]
    return cpu_seconds(
        lambda: score(network, requests, temperature=1.0, token_budget=2048, context=4096), rounds
    )


def updating(model: Any, episodes: int, rounds: int) -> tuple[float, float, float]:
    """(CPU seconds, tokens, mean context) of an update over chat episodes."""
    shape = Shape(episodes, 10, 20, 8, VOCABULARY)
    network = Network(copy.deepcopy(model), CPU)
    settings = LocalPolicySettings(model="built here", token_budget=2048)
    updater = Updater(
        network, Recorder(network, settings.optimizer), settings, context=4096, seed=0, reference=None,
        budget=Budget(settings.token_budget, "the update"),
    )  # fmt: skip
    rows = episode_rows(network, shape, 0, 2)
    metrics = updater.update(rows)
    seconds = cpu_seconds(lambda: updater.update(rows), rounds)
    return seconds, metrics["tokens_processed"], 14.0 * 10


class Mute(ScriptedPolicy):
    """Always the same reply with a Hugging Face tokenizer: what is left is the driver's own work."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(lambda prompt, seed: "")
        self.tokenizer = tokenizer
        self.eos_ids = frozenset({tokenizer.eos_token_id})
        self.reply = (*tokenizer.encode("<action>look</action>"), tokenizer.eos_token_id)

    def _answer(self, request: SampleRequest) -> Sample:
        return Sample(self.reply, (-1.0,) * len(self.reply), truncated=False)


def driver(episodes: int, rounds: int) -> tuple[float, float, float]:
    """(CPU seconds of a turn in the driver, of an environment call, of a reset) on household games."""
    from transformers import AutoTokenizer

    from turnpoint.testing.tiny_model import write_tiny_model

    suite = env_registry.parse({"kind": "household", "max_turns": 15}).build()
    tasks = suite.tasks("train")[:episodes]
    turns = [0]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(write_tiny_model(Path(folder) / "model"))

    def play() -> None:
        rollouts, _ = make_rollouts(suite, Mute(tokenizer), rollout=RolloutSettings(max_response_tokens=200))

        async def go() -> None:
            played = await asyncio.gather(*(rollouts.play(task, 0) for task in tasks))
            turns[0] = sum(len(episode.turns) for episode in played)
            await rollouts.close()

        asyncio.run(go())

    whole = cpu_seconds(play, rounds)
    env = suite.make()
    began = time.process_time()
    for task in tasks:
        env.reset(task)
    reset = (time.process_time() - began) / len(tasks)
    steps, began = 0, time.process_time()
    for task in tasks:
        seen = env.reset(task)
        for _ in range(15):
            env.snapshot()
            answer = env.step((seen.admissible or ("look",))[steps % len(seen.admissible or ("look",))])
            seen, steps = answer.observation, steps + 1
    step = (time.process_time() - began - reset * len(tasks)) / steps
    return (whole - reset * len(tasks)) / turns[0] - step, step, reset


def measure(widths: list[int], rounds: int) -> dict[str, Any]:
    """All measurements, as plain numbers."""
    points: dict[str, list[dict[str, float]]] = {"decoding": [], "scoring": [], "update": []}
    for width in widths:
        model = build_model(Shape(1, 1, 4000, 8, VOCABULARY), layers=2, width=width, seed=0)
        shape = shape_of(model)
        for batch, context in ((1, 200), (8, 200), (32, 200), (8, 600)):
            seconds = decoding(model, batch, context, 16, rounds)
            flops = shape.forward_flops(batch, context + 8)
            points["decoding"].append(
                {"width": width, "batch": batch, "context": context, "seconds": seconds, "flops": flops}
            )
        for sequences, length in ((16, 128), (8, 512)):
            seconds = scoring(model, sequences, length, rounds)
            flops = shape.forward_flops(sequences * length, length / 2)
            points["scoring"].append({"width": width, "length": length, "seconds": seconds, "flops": flops})
        seconds, tokens, context = updating(model, 12, rounds)
        points["update"].append(
            {"width": width, "seconds": seconds, "flops": 3 * shape.forward_flops(tokens, context)}
        )
    call, step, reset = driver(16, rounds)
    return {"points": points, "driver_call": call, "env_step": step, "env_reset": reset}


def fit(measured: dict[str, Any]) -> dict[str, Any]:
    """Coefficients: operations a second of each kind of work by least squares on the logarithm, and fixed parts."""
    points = measured["points"]
    rates = {
        kind: float(np.exp(np.mean([np.log(p["flops"] / p["seconds"]) for p in points[kind]])))
        for kind in ("scoring", "update")
    }
    design = np.array([[1.0, p["flops"]] for p in points["decoding"]])
    seconds = np.array([p["seconds"] for p in points["decoding"]])
    weight = 1.0 / seconds  # relative errors
    (fixed, slope), *_ = np.linalg.lstsq(design * weight[:, None], seconds * weight, rcond=None)
    peak = max(*rates.values(), 1.0 / slope)
    gpu = Gpu("this machine", peak, 1e18, 16e9, 1e18, 1e18)
    share = Efficiency(
        prefill_mfu=rates["scoring"] / peak, scoring_mfu=rates["scoring"] / peak, train_mfu=rates["update"] / peak,
        decode_mfu=min(1.0, 1.0 / slope / peak), decode_mbu=1.0, decode_seconds=max(float(fixed), 0.0),
        call_seconds=0.0, driver_call_seconds=max(measured["driver_call"], 0.0), driver_row_seconds=0.0,
        sync_seconds=0.0, checkpointing=False, micro_batch_tokens=2048,
    )  # fmt: skip
    predicted = {
        "decoding": [float(fixed + slope * p["flops"]) for p in points["decoding"]],
        **{kind: [p["flops"] / rates[kind] for p in points[kind]] for kind in ("scoring", "update")},
    }
    residuals = {
        kind: [round(guess / p["seconds"], 3) for guess, p in zip(values, points[kind], strict=True)]
        for kind, values in predicted.items()
    }
    return {"gpu": gpu_dict(gpu), "efficiency": share.model_dump(), "fit_over_measured": residuals}


def gpu_dict(gpu: Gpu) -> dict[str, Any]:
    """Plain JSON."""
    return {name: getattr(gpu, name) for name in Gpu.__slots__}


def whole_step(profile: dict[str, Any], measured: dict[str, Any], width: int) -> dict[str, dict[str, float]]:
    """A GRPO step of household games on a model that was not fitted on: measured, predicted, by part."""
    from turnpoint.testing.tiny_model import write_tiny_model
    from turnpoint.training.run import build_run
    from turnpoint.training.settings import load_run_config

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_model(Path(folder) / "model", context=16384, width=width)
        config = load_run_config(
            {
                "name": "cost", "out": folder, "env": {"kind": "household", "max_turns": 8},
                "prompt": {"show_admissible": False},
                "policy": {"kind": "local", "model": str(model), "device": "cpu", "optimizer": {"lr": 0.0}},
                "method": {"kind": "grpo", "group": 4}, "train": {"tasks_per_step": 4},
                "rollout": {"max_response_tokens": 12},
            }
        )  # fmt: skip
        run = build_run(config, Path(folder) / "run")
        real = _play_step(run)
        shape = _tiny_shape(run.policy)
    turns = real["turns"]
    opening = real["opening"]
    work = Workload(
        tasks=4, group=4, turns=turns, max_turns=max(1, round(turns)), opening_tokens=opening,
        observation_tokens=max(1.0, real["growth"]), response_tokens=real["response"],
        env_seconds=measured["env_step"], reset_seconds=measured["env_reset"],
    )  # fmt: skip
    cluster = Cluster(
        Gpu(**profile["gpu"]),
        1,
        Efficiency.model_validate(profile["efficiency"]),
        env_workers=1,
        lockstep=True,
    )
    time_ = step_time(work, shape, cluster).seconds
    playing = time_["generation"] + time_["driver"] + time_["environment"]
    found = {"playing": (real["playing"], playing), "update": (real["update"], time_["update"])}
    return {name: {"measured": a, "model": b, "model_over_measured": b / a} for name, (a, b) in found.items()}


def _tiny_shape(policy: Any) -> ModelShape:
    return shape_of(policy.network.model)


def _play_step(run: Any) -> dict[str, float]:
    """CPU seconds of collecting and updating, and the statistics of the episodes; the second step of two."""
    result: dict[str, float] = {}

    async def go() -> None:
        for step in range(2):
            rollouts = run.open_rollouts(step)
            began = time.process_time()
            groups = await run.method.collect(run.suite.tasks("train")[:4], rollouts, run.teachers)
            rows = await run.method.credit(groups, run.scorer, run.teachers)
            await rollouts.close()
            played = time.process_time()
            run.policy.update(rows)
            episodes = [episode for group in groups for episode in group.episodes]
            turns = [turn for episode in episodes for turn in episode.turns]
            first = [episode.turns[0] for episode in episodes]
            growth = [
                len(b.prompt_ids) - len(a.prompt_ids) - len(a.response_ids)
                for episode in episodes
                for a, b in zip(episode.turns, episode.turns[1:], strict=False)
            ]
            result.update(
                playing=played - began,
                update=time.process_time() - played,
                turns=len(turns) / len(episodes),
                opening=float(np.mean([len(turn.prompt_ids) for turn in first])),
                response=float(np.mean([len(turn.response_ids) for turn in turns])),
                growth=float(np.mean(growth)),
            )

    asyncio.run(go())
    return result


def show(result: dict[str, Any]) -> Table:
    """What was fitted and how well."""
    table = Table("part", "measured CPU s", "model", "model / measured")
    for name, row in result["whole_step"].items():
        table.add_row(
            name, f"{row['measured']:.2f}", f"{row['model']:.2f}", f"{row['model_over_measured']:.2f}"
        )
    return table


def main(arguments: list[str] | None = None) -> None:
    """Command line; JSON on standard output, a table on standard error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--step-width", type=int, default=96, help="width of the model of the whole step")
    parser.add_argument("--out", type=Path, help="write the profile for turnpoint plan --gpu FILE")
    a = parser.parse_args(arguments)
    torch.set_num_threads(1)
    measured = measure(a.widths, a.rounds)
    profile = fit(measured)
    result = profile | {
        "driver_call": measured["driver_call"],
        "env_step": measured["env_step"],
        "env_reset": measured["env_reset"],
        "whole_step": whole_step(profile, measured, a.step_width),
        "points": measured["points"],
    }
    if a.out is not None:
        a.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    Console(stderr=True).print(show(result))


if __name__ == "__main__":
    main()
