"""SmolLM2-135M-Instruct on a CPU: convert, sample, score, train in full and with LoRA, check and run the recipe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from turnpoint.policy import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.local import LocalPolicy
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.sources import model_folder
from turnpoint.preflight import PreflightReport
from turnpoint.preflight.check import check_run
from turnpoint.preflight.dry_run import dry_run
from turnpoint.prompts import ChatRenderer
from turnpoint.records import Message, Row
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import RunConfig, load_run_config
from turnpoint.training.view import View
from turnpoint.training.warm_start import REPORT

from .conftest import SOURCE, models

pytestmark = pytest.mark.smollm
RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2_household.yaml"
TINY = [
    "env.max_turns=3", "policy.warm_start.demonstrations=6", "policy.warm_start.sft.batch_tokens=500",
    "method.group=2", "train.steps=2", "train.tasks_per_step=1", "eval.before=false", "eval.tasks=1", "loggers=[]",
    "rollout.max_response_tokens=16",
]  # fmt: skip
QUESTIONS = ("What is the capital of France?", "Say one word.", "Name a colour.")


@pytest.fixture(scope="module")
def make(smollm: Path) -> Callable[..., LocalPolicy]:
    def policy(**settings: Any) -> LocalPolicy:
        return LocalPolicy(LocalPolicySettings(model=str(smollm), device="cpu", **settings), seed=0)

    return policy


@pytest.fixture(scope="module")
def adapted(make: Callable[..., LocalPolicy]) -> LocalPolicy:
    return make(lora={"rank": 8}, optimizer={"lr": 1e-3}, gradient_checkpointing=True)


def talk(policy: LocalPolicy, turns: int, max_tokens: int = 8) -> list[tuple[ScoreRequest, np.ndarray]]:
    """Conversations in the model's own template, each turn's request and the sampler's log-probs."""
    renderer = ChatRenderer(policy.tokenizer, eos_ids=policy.eos_ids)
    said: list[list[Message]] = [[Message("user", question)] for question in QUESTIONS]
    found = []
    for _ in range(turns):
        tickets = {}
        for number, messages in enumerate(said):
            request = SampleRequest(
                renderer.prompt_ids(messages),
                seed=number,
                sampling=Sampling(max_tokens=max_tokens),
                session=f"s{number}",
            )
            tickets[policy.submit(request)] = (number, request.prompt_ids)
        for ticket, sample in models.finish(policy).items():
            number, prompt = tickets[ticket]
            found.append((ScoreRequest(prompt, sample.token_ids), np.asarray(sample.logprobs)))
            text = renderer.reply_text(sample.token_ids)
            said[number] += [Message("assistant", text, sample.token_ids), Message("user", "Go on.")]
    return found


def rows(found: list[tuple[ScoreRequest, np.ndarray]]) -> list[Row]:
    return [
        Row(
            r.prompt_ids,
            r.response_ids,
            old,
            np.full(len(old), (-1.0) ** n),
            episode=f"e{n % 3}",
            turn=n // 3,
        )
        for n, (r, old) in enumerate(found)
    ]


def gap(policy: LocalPolicy, found: list[tuple[ScoreRequest, np.ndarray]]) -> float:
    policy.forget_sessions()
    scored = policy.logprobs([request for request, _ in found])
    return max(float(np.abs(a - b).max()) for a, (_, b) in zip(scored, found, strict=True))


def test_the_package_becomes_a_model_that_can_be_trained_and_saved(smollm: Path, cache: Path) -> None:
    assert model_folder(SOURCE, cache) == smollm
    assert [path.name for path in (cache / "models").iterdir()] == [smollm.name]
    config = json.loads((smollm / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["tie_word_embeddings"] is True
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    assert "SmolLM" in tokenizer.chat_template
    text = "2024: Don't  stop,\n\n\tnaïve café №7."
    assert tokenizer.decode(tokenizer.encode(text)) == text
    model = AutoModelForCausalLM.from_pretrained(smollm, dtype=torch.float32)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTIONS[0]}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )  # fmt: skip
    answer = model.generate(**ids, max_new_tokens=16, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(answer)


def test_all_weights_train_and_sampler_and_trainer_agree(make: Callable[..., LocalPolicy]) -> None:
    policy = make(optimizer={"lr": 1e-5})
    renderer = ChatRenderer(policy.tokenizer, eos_ids=policy.eos_ids)
    assert renderer.is_prefix_stable()
    found = talk(policy, turns=2)
    assert gap(policy, found) <= 1e-4
    before = [w.detach().sum().item() for w in policy.network.model.parameters()]
    metrics = policy.update(rows(found))
    assert metrics["logprob_diff_max"] <= 1e-4
    assert metrics["grad_norm"] > 0
    assert metrics["tokens"] == sum(len(request.response_ids) for request, _ in found)
    moved = [
        a != w.detach().sum().item() for a, w in zip(before, policy.network.model.parameters(), strict=True)
    ]
    assert np.mean(moved) > 0.9
    assert gap(policy, talk(policy, turns=1)) <= 1e-4


def test_adapters_train_alone_and_come_back(
    adapted: LocalPolicy, make: Callable[..., LocalPolicy], tmp_path: Path
) -> None:
    found = talk(adapted, turns=2)
    assert gap(adapted, found) <= 1e-4
    requests = [request for request, _ in found]
    plain = adapted.logprobs(requests)
    metrics = adapted.update(rows(found))
    assert metrics["logprob_diff_max"] <= 1e-4
    live, reference = adapted.logprobs(requests), adapted.logprobs(requests, "reference")
    assert max(np.abs(a - b).max() for a, b in zip(live, plain, strict=True)) > 1e-3
    assert max(np.abs(a - b).max() for a, b in zip(reference, plain, strict=True)) <= 1e-5
    assert gap(adapted, talk(adapted, turns=2)) <= 1e-4, "sampler = trainer once adapters are not nothing"
    adapted.save(tmp_path / "saved")
    other = make(lora={"rank": 8}, optimizer={"lr": 1e-3}, gradient_checkpointing=True)
    other.load(tmp_path / "saved")
    for policy in (adapted, other):
        policy.update(rows(found)[:3])
    for a, b in zip(adapted.logprobs(requests), other.logprobs(requests), strict=True):
        np.testing.assert_array_equal(a, b)
    merged = LocalPolicy(LocalPolicySettings(model=str(tmp_path / "saved"), device="cpu"), seed=0)
    for a, b in zip(merged.logprobs(requests), live, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.fixture(scope="module")
def config(cache: Path, smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """The recipe, made small, on the model that is converted already."""
    return load_run_config(RECIPE, [*TINY, f"cache={cache}", f"out={tmp_path_factory.mktemp('runs')}"])


@pytest.fixture(scope="module")
def dry(config: RunConfig) -> PreflightReport:
    return asyncio.run(dry_run(config, tasks=1))


def test_a_dry_run_tells_memory_and_cost_before_the_warm_start(
    dry: PreflightReport, config: RunConfig, cache: Path
) -> None:
    assert dry.ok, [finding.detail for finding in dry.failures]
    verdicts = {(f.group, f.name): f.verdict for f in dry.findings}
    assert verdicts["memory", "from the model's files"] == "ok"
    assert verdicts["policy", "warm start"] == "skip"
    assert dry.memory["weights"] == pytest.approx(4 * 134_515_008, rel=0.01)
    assert 0 < dry.memory["optimizer"] < 0.1 * dry.memory["weights"], "adapters alone have moments"
    assert dry.cost["sampled tokens"]["run"] > 0
    assert not (cache / "pretrained").exists(), "nothing was trained"


def test_the_recipe_warms_up_trains_and_passes_the_check(
    dry: PreflightReport, config: RunConfig, cache: Path
) -> None:
    run = build_run(config, Path(config.out) / "run")
    (warm,) = (cache / "pretrained").iterdir()
    report = json.loads((warm / REPORT).read_text())
    assert min(report["losses"][1:]) < 0.95 * report["losses"][0]
    assert not (warm / "adapter").exists()
    asyncio.run(Trainer(run, View()).train())
    steps = [r for r in read_metrics(run.folder / "metrics.jsonl") if r["kind"] == "train"]
    assert len(steps) == 2
    assert all(step["rows"] > 0 and step["update/logprob_diff_max"] <= 1e-4 for step in steps)
    assert all(step["rows_anew"] == 0 and step["update/out_of_memory"] == 0 for step in steps)
    assert (run.folder / "checkpoints" / "step_000002" / "policy" / "adapter").is_dir()
    # games that can be won, as the environment's contract asks, and the warm-started model, whose replies are short
    long = ["env.max_turns=6", "policy.warm_start.demonstrations=0", f"policy.model={warm}", f"cache={cache}"]
    checked = load_run_config(RECIPE, [*TINY, *long])
    found = asyncio.run(check_run(build_run(checked, run.folder, training=False, learning=False), tasks=1))
    assert found.ok, [finding.detail for finding in found.failures]
    verdicts = {(f.group, f.name): f.verdict for f in found.findings}
    assert verdicts["log-probs", "sampler and trainer"] == "ok"
    assert verdicts["prompts", "template"] == "ok"
