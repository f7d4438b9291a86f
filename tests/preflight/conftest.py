"""A tiny random chat model that knows the words of the corridor game, and a set-up that distils into it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnpoint.preflight import NotApplicable, scoring, tokens
from turnpoint.preflight.bench import Bench
from turnpoint.prompts import Prompter, PromptSettings
from turnpoint.testing import toy_suite
from turnpoint.testing.tiny_model import TEMPLATE
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PROMPT = {"compact": True, "action_tags": False}
MARKS = ["<unk>", "<|im_end|>", "<|im_start|>", "<think>", "</think>", "yes", "question", "1", "2"]


def words() -> list[str]:
    suite = toy_suite()
    texts = [
        *suite.vocabulary_texts(),
        *Prompter(PromptSettings(**PROMPT), suite.instructions).vocabulary_texts(),
    ]
    found = {word for text in texts for word in text.replace(".", " . ").replace(":", " : ").split()}
    return [*MARKS, *sorted((found | {"user", "assistant", "system"}) - set(MARKS))]


def write_model(folder: Path, seed: int, *, reverse: bool = False) -> Path:
    """A model whose pad token is its EOS; ``reverse``: with the same words under other ids."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    listed = words()
    listed = [*listed[: len(MARKS)], *listed[len(MARKS) :][:: -1 if reverse else 1]]
    core = Tokenizer(models.WordLevel({word: n for n, word in enumerate(listed)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", eos_token="<|im_end|>", pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"], chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(listed), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=2048, tie_word_embeddings=True,
        eos_token_id=1, pad_token_id=1, bos_token_id=None, initializer_range=0.2,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("student"), 0)


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("teacher"), 1)


@pytest.fixture
def config_of(student: Path, teacher: Path) -> Callable[..., dict[str, Any]]:
    """Config data: OPD from the teacher on the corridor game, with sections replaced."""

    def make(**sections: Any) -> dict[str, Any]:
        return {
            "env": {"kind": TOY, "rooms": 3, "max_turns": 4},
            "prompt": PROMPT,
            "policy": {"kind": "local", "model": str(student), "device": "cpu"},
            "method": {"kind": "opd", "group": 2},
            "scoring": {"kind": "local", "model": str(teacher), "device": "cpu"},
            "rollout": {"max_response_tokens": 24},
            "train": {"steps": 10, "tasks_per_step": 8},
            "eval": {"tasks": 4},
            "loggers": [],
        } | sections

    return make


@pytest.fixture
def bench_of(config_of: Callable[..., dict[str, Any]]) -> Callable[..., Bench]:
    """A bench over a built run; ``step``: teachers built and the tiny step done."""

    def make(*, step: bool = True, **sections: Any) -> Bench:
        config = load_run_config(config_of(**sections))
        run = build_run(config, Path("unused"), training=False, learning=False)
        bench = Bench(run, run.suite.tasks("train")[:2])
        if step:
            with contextlib.suppress(NotApplicable):  # no scoring teacher is set
                asyncio.run(scoring.fit(bench))
            asyncio.run(tokens.tiny_step(bench))
        return bench

    return make
