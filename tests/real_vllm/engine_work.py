"""One engine's work, in its own process: prints what it found as one line of JSON. See test_engine.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from turnpoint.config import ConfigError
from turnpoint.policy import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.settings import policy_registry
from turnpoint.records import Row

torch.set_num_threads(1)
BLOCK = 32
"""Tokens of a block of the prefix cache; vLLM's default on CPUs is longer than these conversations."""
ENDS = (0, *range(100, 110))
"""Tokens that end a turn: many, so that random models end some."""


def write_model(folder: Path, family: str) -> Path:
    """A random model with heads of 32, the least that vLLM's CPU attention takes."""
    import transformers as hf

    from turnpoint.testing.tiny_model import write_tiny_model

    write_tiny_model(folder)
    shape: dict[str, Any] = {
        "vocab_size": 258, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 2048,
        "eos_token_id": list(ENDS), "pad_token_id": 0, "bos_token_id": None, "initializer_range": 0.2,
    }  # fmt: skip
    torch.manual_seed(0)
    if family == "qwen3":
        model: Any = hf.Qwen3ForCausalLM(hf.Qwen3Config(**shape, tie_word_embeddings=True))
    else:
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**shape, tie_word_embeddings=False))
    model.save_pretrained(folder)
    return folder


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "vllm", "model": str(folder), "device": "cpu", "context_length": 512, "eager": True,
        "optimizer": {"lr": 0.01}, "engine_options": {"block_size": BLOCK}, **changes,
    }  # fmt: skip


def finish(policy: Any) -> dict[int, Any]:
    results: dict[int, Any] = {}
    while done := policy.advance():
        results |= dict(done)
    return results


def play(policy: Any, *, calls: int = 6, turns: int = 3, width: int = 24) -> list[tuple[SampleRequest, Any]]:
    rng = np.random.default_rng(0)
    histories: list[tuple[int, ...]] = [()] * calls
    pairs = []
    for turn in range(turns):
        sampling = Sampling(temperature=policy.temperature, max_tokens=24)
        fresh = [tuple(int(i) for i in rng.integers(2, 258, width)) for _ in histories]
        requests = [
            SampleRequest(h + new, seed=100 * turn + n, sampling=sampling)
            for n, (h, new) in enumerate(zip(histories, fresh, strict=True))
        ]
        tickets = [policy.submit(request) for request in requests]
        samples = finish(policy)
        pairs += [(request, samples[ticket]) for request, ticket in zip(requests, tickets, strict=True)]
        histories = [request.prompt_ids + sample.token_ids for request, sample in pairs[-calls:]]
    return pairs


def gap(policy: Any, pairs: list[tuple[SampleRequest, Any]]) -> float:
    scored = policy.logprobs([ScoreRequest(r.prompt_ids, s.token_ids) for r, s in pairs])
    return max(float(np.abs(np.array(s.logprobs) - v).max()) for (_, s), v in zip(pairs, scored, strict=True))


def rows_of(pairs: list[tuple[SampleRequest, Any]]) -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        Row(
            r.prompt_ids, s.token_ids, np.array(s.logprobs), rng.normal(size=len(s.token_ids)), episode=str(n)
        )
        for n, (r, s) in enumerate(pairs)
    ]


def contract() -> dict[str, Any]:
    from turnpoint.policy.vllm.contract import breaches
    from turnpoint.policy.vllm.engine import import_vllm

    vllm = import_vllm()
    return {
        "breaches": breaches(vllm),
        "in_range": (0, 30) <= tuple(map(int, vllm.__version__.split(".")[:2])) < (0, 32),
    }


def updates(family: str, folder: str) -> dict[str, Any]:
    model = write_model(Path(folder) / "model", family)
    policy: Any = policy_registry.parse(settings(model, temperature=0.7)).build(seed=0)
    found: dict[str, Any] = {"gaps": [], "monitored": [], "cached": [], "tokens": 0}
    texts = []
    for _ in range(3):
        pairs = play(policy)
        found["gaps"].append(gap(policy, pairs))
        texts.append([sample.token_ids for _, sample in pairs])
        metrics = policy.update(rows_of(pairs))
        found["monitored"].append(metrics["sampler_diff_max"])
        found["cached"].append(metrics["sampler_cached_prompt"])
        found["tokens"] += metrics["sampler_tokens"]
    found["moved"] = texts[0] != texts[1] != texts[2]
    policy.save(Path(folder) / "saved")
    together = play(policy, turns=1)
    found["gaps"].append(gap(policy, together))
    found["ends"] = any(sample.token_ids[-1] in ENDS for _, sample in together)
    found["ends_alone"] = not any(token in ENDS for _, sample in together for token in sample.token_ids[:-1])
    found["truncated_rest"] = all(s.truncated == (s.token_ids[-1] not in ENDS) for _, s in together)
    policy.update(rows_of(together))
    policy.load(Path(folder) / "saved")
    again = play(policy, turns=1)
    found["same_after_load"] = [s.token_ids for _, s in again] == [s.token_ids for _, s in together]
    request = together[3][0]
    policy.forget_sessions()
    ticket = policy.submit(request)
    found["alone"], found["together"] = finish(policy)[ticket].token_ids, together[3][1].token_ids
    ticket = policy.submit(SampleRequest((5, 6, 7), seed=0, sampling=Sampling(temperature=0.0, max_tokens=8)))
    greedy = finish(policy)[ticket]
    whole: Any = policy.trainer.network.model(torch.tensor([[5, 6, 7, *greedy.token_ids]])).logits[0].detach()
    plain = torch.log_softmax(whole.float(), -1)
    found["greedy_gap"] = max(
        abs(value - float(plain[2 + n, token]))
        for n, (token, value) in enumerate(zip(greedy.token_ids, greedy.logprobs, strict=True))
    )
    return found


def faults(folder: str) -> dict[str, Any]:
    """The names that are used, and what is said when weights or cache are left as they were."""
    model = write_model(Path(folder) / "model", "qwen3")
    policy: Any = policy_registry.parse(settings(model)).build(seed=0)
    llm, said = policy.engine._llm, {}
    for name, stub in (("collective_rpc", lambda *_, **__: []), ("reset_prefix_cache", lambda *_: True)):
        policy.update(rows_of(play(policy, width=80)))
        setattr(llm, name, stub)
        try:
            policy.update(rows_of(play(policy, width=80)))
            said[name] = "nothing"
        except ConfigError as error:
            said[name] = str(error)
        delattr(llm, name)
        policy._stale = True
        policy._monitor.forget()
    return contract() | said


def run(folder: str) -> dict[str, Any]:
    from turnpoint.testing.toy_env import KIND
    from turnpoint.training.loop import Trainer
    from turnpoint.training.metrics import read_metrics
    from turnpoint.training.run import build_run
    from turnpoint.training.settings import load_run_config
    from turnpoint.training.view import View

    model = write_model(Path(folder) / "model", "qwen3")
    data = {
        "env": {"kind": KIND, "max_turns": 3},
        "prompt": {"compact": True},
        "policy": settings(model, context_length=2048),
        "method": {"kind": "grpo", "group": 2},
        "rollout": {"max_response_tokens": 12},
        "train": {"steps": 3, "tasks_per_step": 2, "checkpoint_every": 1, "keep_checkpoints": 9},
        "eval": {"before": False, "every": 0, "tasks": 1},
        "loggers": [],
    }
    place = Path(folder) / "run"
    whole = build_run(load_run_config(data), place)
    asyncio.run(Trainer(whole, View()).train())
    name = "checkpoints/step_000003/policy/model.safetensors"
    first = (place / name).read_bytes()
    records = [r for r in read_metrics(place / "metrics.jsonl") if r["kind"] == "train"]
    trainer = Trainer(whole, View())  # the same engine, put back to an earlier checkpoint
    trainer.resume(place / "checkpoints/step_000001")
    asyncio.run(trainer.train())
    return {
        "same": (place / name).read_bytes() == first,
        "diffs": [record["update/sampler_diff_max"] for record in records],
        "steps": len(records),
    }


if __name__ == "__main__":
    tasks = {"faults": faults, "updates": updates, "run": run}
    with contextlib.redirect_stdout(sys.stderr):
        answer = tasks[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(answer))
