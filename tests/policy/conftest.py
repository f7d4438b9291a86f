"""Tiny random models in temporary folders, and requests over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.policy.local import LocalPolicy  # noqa: E402
from turnpoint.policy.local.optim import Stepper  # noqa: E402
from turnpoint.policy.settings import LocalPolicySettings  # noqa: E402
from turnpoint.records import Row  # noqa: E402

VOCAB = 64
EOS = 1

torch.set_num_threads(1)


def write_tokenizer(folder: Path, vocab: int = VOCAB) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": EOS, **{f"w{i}": i for i in range(2, vocab)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    tokenizer.save_pretrained(folder)


def build_model(kind: str, vocab: int = VOCAB, **changes: Any) -> Any:
    import transformers as hf

    torch.manual_seed(7)
    common = {
        "vocab_size": vocab,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "eos_token_id": EOS,
        "bos_token_id": None,
        "pad_token_id": 0,
        "initializer_range": 0.2,
    }
    grouped = {"num_key_value_heads": 2}
    kinds: dict[str, Callable[[], Any]] = {
        "qwen3": lambda: hf.Qwen3ForCausalLM(
            hf.Qwen3Config(**common | grouped | {"head_dim": 8, "tie_word_embeddings": True} | changes)
        ),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**common | grouped | changes)),
        "neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**common | changes)),
        "gemma3": lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                **common
                | grouped
                | {
                    "head_dim": 8,
                    "sliding_window": 6,
                    "layer_types": ["sliding_attention", "full_attention"],
                    "final_logit_softcapping": 5.0,
                }
                | changes
            )
        ),
        "mistral": lambda: hf.MistralForCausalLM(
            hf.MistralConfig(**common | grouped | {"sliding_window": 6} | changes)
        ),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=vocab,
                n_positions=256,
                n_embd=32,
                n_layer=2,
                n_head=4,
                eos_token_id=EOS,
                bos_token_id=None,
            )
        ),
    }
    return kinds[kind]().float()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folder of a tiny model; the same arguments give the same folder."""
    made: dict[str, Path] = {}

    def make(kind: str = "qwen3", vocab: int = VOCAB, **changes: Any) -> Path:
        key = repr((kind, vocab, sorted(changes.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp(kind)
            build_model(kind, vocab, **changes).save_pretrained(folder)
            write_tokenizer(folder, vocab)
            made[key] = folder
        return made[key]

    return make


MakePolicy = Callable[..., LocalPolicy]


@pytest.fixture
def make_policy(model_folder: Callable[..., Path]) -> MakePolicy:
    """A policy over a tiny model: ``make_policy("llama", seed=0, **settings)``."""

    def make(
        kind: str = "qwen3", *, seed: int = 0, model: dict[str, Any] | None = None, **settings: Any
    ) -> LocalPolicy:
        folder = model_folder(kind, **(model or {}))
        return LocalPolicy(LocalPolicySettings(model=str(folder), device="cpu", **settings), seed=seed)

    return make


def finish(policy: LocalPolicy) -> dict[int, Any]:
    """All results of what is queued."""
    results: dict[int, Any] = {}
    while done := policy.advance():
        results |= dict(done)
    return results


def random_ids(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    return tuple(int(i) for i in rng.integers(2, VOCAB, n))


def episode_rows(
    policy: LocalPolicy,
    rng: np.random.Generator,
    *,
    turns: int,
    name: str,
    mask: bool = False,
    noise: float = 0.0,
) -> list[Row]:
    """Rows of one episode with full history; old log-probs are the policy's own plus noise."""
    from turnpoint.policy import ScoreRequest

    history: tuple[int, ...] = ()
    requests = []
    for _ in range(turns):
        history += random_ids(rng, int(rng.integers(2, 6)))
        response = random_ids(rng, int(rng.integers(1, 5)))
        requests.append(ScoreRequest(history, response))
        history += response
    rows = []
    for turn, (request, old) in enumerate(zip(requests, policy.logprobs(requests), strict=True)):
        n = len(request.response_ids)
        rows.append(
            Row(
                request.prompt_ids,
                request.response_ids,
                old + noise * rng.normal(size=n),
                rng.normal(size=n),
                mask=rng.random(n) < 0.7 if mask and turn % 2 else None,
                episode=name,
                turn=turn,
            )
        )
    return rows


@pytest.fixture
def gradient(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``gradient(policy, rows)``: the flat gradient of one update, in float32 and not clipped, and its metrics."""
    caught: list[Any] = []
    step = Stepper.step

    def spy(self: Stepper, norm: float) -> float:
        parts = [m.grad if m.grad is not None else torch.zeros_like(m) for m in self.masters.values()]
        caught.append(torch.cat([part.flatten().float() for part in parts]))
        return step(self, norm)

    monkeypatch.setattr(Stepper, "step", spy)

    def run(policy: LocalPolicy, rows: list[Row]) -> tuple[Any, dict[str, float]]:
        caught.clear()
        metrics = policy.update(rows)
        (flat,) = caught
        return flat, metrics

    return run
