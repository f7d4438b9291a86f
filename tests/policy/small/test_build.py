"""The folder of the built-in agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnpoint.config import ConfigError
from turnpoint.policy import SampleRequest, Sampling
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.small import build_small_agent

torch = pytest.importorskip("torch")

TEXTS = ["You see a cabinet 3, and a cup 12.", "<action>go to cabinet 3</action>"]


def build(folder: Path, seed: int = 0, **sizes: int) -> Path:
    small = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "ffn": 24} | sizes
    return build_small_agent(TEXTS, seed=seed, context_length=64, folder=folder, **small)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_weights(tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    one, same, other = (contents(build(tmp_path / n, seed)) for n, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert one == same
    changed = {name for name in one if one[name] != other[name]}
    assert changed == {"model.safetensors"}
    assert torch.equal(torch.random.get_rng_state(), state), "the global random stream must not move"


def test_a_local_policy_loads_samples_and_ends_turns(tmp_path: Path) -> None:
    policy = LocalPolicySettings(model=str(build(tmp_path / "m"))).build(seed=0)
    assert policy.context_length == 64
    assert policy.eos_ids == {policy.tokenizer.eos_token_id}
    prompt = tuple(policy.tokenizer.encode("go to cabinet 3", add_special_tokens=False))
    policy.submit(SampleRequest(prompt, seed=0, sampling=Sampling(max_tokens=4)))
    ((_, sample),) = policy.advance()
    assert 1 <= len(sample.token_ids) <= 4


def test_fresh_weights_do_not_prefer_any_token_much(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = build(tmp_path / "m", layers=2, width=128, heads=4, kv_heads=2, ffn=384)
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logits = model(torch.arange(4, 20)[None]).logits[0]
    assert model.config.tie_word_embeddings
    assert 0.1 < logits.std() < 3.0


@pytest.mark.parametrize(
    "sizes", [{"width": 18, "heads": 4}, {"heads": 4, "kv_heads": 3}, {"width": 6, "heads": 2}]
)
def test_sizes_that_do_not_fit_are_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="sizes do not fit"):
        build(tmp_path / "m", **sizes)
