"""A tiny random model of each family: what the sampler says of its tokens is what the trainer computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnpoint.policy import SampleRequest, Sampling, ScoreRequest
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.prompts import ChatRenderer
from turnpoint.records import Message, Row

from .families import FAMILIES, family_tokenizer

torch = pytest.importorskip("torch")


def write_model(folder: Path, family: str) -> Path:
    """Two layers of the family's architecture with the family's small tokenizer."""
    import transformers as hf

    tokenizer = family_tokenizer(family)
    tokenizer.save_pretrained(folder)
    ends = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(FAMILIES[family].end)}
    common = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 1024,
        "eos_token_id": sorted(ends), "bos_token_id": tokenizer.bos_token_id, "initializer_range": 0.2,
        "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip
    torch.manual_seed(5)
    if family == "qwen3":
        model = hf.Qwen3ForCausalLM(hf.Qwen3Config(**common, tie_word_embeddings=True))
    elif family == "gemma3":
        windows = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
        model = hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**common | windows))
    else:
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**common))
    model.float().save_pretrained(folder)
    return folder


def converse(policy: Any, renderer: ChatRenderer, name: str, turns: int) -> list[Row]:
    """A conversation with the model, its key-value cache kept between turns; one row for each turn."""
    messages: tuple[Message, ...] = (Message("system", "Be brief."),)
    rows = []
    for turn in range(turns):
        messages = (*messages, Message("user", f"You see an apple {turn}. Your turn, {name}."))
        prompt = renderer.prompt_ids(messages)
        policy.submit(SampleRequest(prompt, seed=turn, sampling=Sampling(max_tokens=8), session=name))
        ((_, sample),) = policy.advance()
        messages = (*messages, Message("assistant", renderer.reply_text(sample.token_ids), sample.token_ids))
        advantages = np.ones(len(sample.token_ids))
        rows.append(
            Row(
                prompt,
                sample.token_ids,
                np.asarray(sample.logprobs),
                advantages,
                episode=name,
                turn=turn,
            )
        )
    return rows


@pytest.mark.parametrize("family", ["qwen3", "llama3", "smollm2", "gemma3"])
def test_sampler_and_trainer_agree(tmp_path: Path, family: str) -> None:
    folder = write_model(tmp_path, family)
    policy = LocalPolicySettings(model=str(folder), device="cpu").build(seed=0)
    date = {"date_string": "01 Feb 2025"} if family == "llama3" else {}
    renderer = ChatRenderer(policy.tokenizer, template_arguments=date, eos_ids=policy.eos_ids)
    assert renderer.end_of_turn_id in policy.eos_ids
    rows = converse(policy, renderer, "a", 3) + converse(policy, renderer, "b", 2)
    assert renderer.extends((*rows[0].prompt_ids, *rows[0].response_ids), rows[1].prompt_ids)

    scored = policy.logprobs([ScoreRequest(row.prompt_ids, row.response_ids) for row in rows])
    for row, values in zip(rows, scored, strict=True):
        np.testing.assert_allclose(values, row.old_logprobs, atol=1e-4)
        np.testing.assert_allclose(plain_forward(policy.network.model, row), row.old_logprobs, atol=1e-4)
    assert policy.update(rows)["logprob_diff_max"] <= 1e-4


def plain_forward(model: Any, row: Row) -> Any:
    """Log-probs of a row's response from one forward pass of the model as transformers runs it."""
    ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    with torch.inference_mode():
        logprobs = model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1)
    places = torch.arange(len(row.prompt_ids), ids.shape[1])
    return logprobs[places - 1, ids[0, places]].double().numpy()
