"""A tiny random chat model that knows the words of the corridor game, and rollouts with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import Episode
from turnpoint.rollouts import Rollouts, RolloutSettings, Streams
from turnpoint.teachers.scoring import Student
from turnpoint.testing import toy_suite

TEMPLATE = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> assistant ' }}{% endif %}"
)
PROMPT = PromptSettings(compact=True, action_tags=False)


def words() -> list[str]:
    """Marks first, then every word of the game and of the compact prompt."""
    suite = toy_suite()
    texts = [*suite.vocabulary_texts(), *Prompter(PROMPT, suite.instructions).vocabulary_texts()]
    found = {word for text in texts for word in text.replace(".", " . ").replace(":", " : ").split()}
    return ["<pad>", "<unk>", "<s>", "<e>", *sorted(found | {"user", "assistant"})]


def write_tokenizer(folder: Path, vocabulary: list[str], *, lowercase: bool = False) -> int:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", eos_token="<e>", chat_template=TEMPLATE
    ).save_pretrained(folder)
    return len(vocabulary)


def write_model(folder: Path, seed: int, *, vocabulary: list[str] | None = None, **changes: Any) -> Path:
    """A model folder; ``changes``: ``lowercase`` for the tokenizer, the rest for the model's config."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    size = write_tokenizer(folder, vocabulary or words(), lowercase=changes.pop("lowercase", False))
    torch.manual_seed(seed)
    config = {
        "vocab_size": size, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 2048,
        "eos_token_id": 3, "bos_token_id": None, "pad_token_id": 0, "initializer_range": 0.2,
        "tie_word_embeddings": True,
    }  # fmt: skip
    Qwen3ForCausalLM(Qwen3Config(**config | changes)).save_pretrained(folder)
    return folder


def student_of(policy: Any, suite: Any = None) -> Student:
    suite = suite or toy_suite()
    return Student(policy, Prompter(PROMPT, suite.instructions), ChatRenderer(policy.tokenizer), suite)


def rollouts_of(student: Student, *, tokens: int = 6, turns: int = 5) -> Rollouts:
    settings = RolloutSettings(max_response_tokens=tokens, max_turns=turns)
    return Rollouts(student.suite, student.policy, student.prompter, student.renderer, settings, Streams(0))


def play(student: Student, tasks: int = 3, **changes: Any) -> list[Episode]:
    rollouts = rollouts_of(student, **changes)

    async def go() -> list[Episode]:
        return list(
            await asyncio.gather(*(rollouts.play(t, 0) for t in student.suite.tasks("train")[:tasks]))
        )

    return asyncio.run(go())
