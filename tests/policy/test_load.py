"""Model folders that cannot work are refused with the way out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.policy.local import LocalPolicy  # noqa: E402
from turnpoint.policy.local.load import load_tokenizer_of  # noqa: E402
from turnpoint.policy.settings import LocalPolicySettings  # noqa: E402

from .conftest import MakePolicy, build_model, write_tokenizer  # noqa: E402


def attempt(folder: Path, **settings: Any) -> LocalPolicy:
    return LocalPolicy(LocalPolicySettings(model=str(folder), **settings), seed=0)


def without(folder: Path, target: Path, *patterns: str) -> Path:
    shutil.copytree(folder, target)
    for pattern in patterns:
        for path in target.glob(pattern):
            path.unlink()
    return target


def test_incomplete_folders(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    good = model_folder()
    with pytest.raises(ConfigError, match="not a folder; models are not downloaded"):
        attempt(tmp_path / "absent")
    with pytest.raises(ConfigError, match=r"no config\.json"):
        attempt(without(good, tmp_path / "a", "config.json"))
    with pytest.raises(ConfigError, match="no tokenizer"):
        attempt(without(good, tmp_path / "b", "tokenizer*"))
    with pytest.raises(ConfigError, match="safetensors"):
        attempt(without(good, tmp_path / "c", "*.safetensors"))


def test_own_code_is_refused(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = without(model_folder(), tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "x.Y"}}))
    with pytest.raises(ConfigError, match="auto_map"):
        attempt(folder)


def test_spaces_before_punctuation_stay(tmp_path: Path) -> None:
    """A tokenizer whose file asks to clean them up would turn a sampled reply into other text."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<eos>": 0, "do": 1, ".": 2, "n't": 3}
    inner = Tokenizer(models.WordLevel(words, unk_token="<eos>"))
    PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", clean_up_tokenization_spaces=True
    ).save_pretrained(tmp_path)
    tokenizer = load_tokenizer_of(tmp_path, 4)
    assert tokenizer.decode([1, 3, 2]) == "do n't ."
    tokenizer.save_pretrained(tmp_path / "again")
    again = PreTrainedTokenizerFast.from_pretrained(tmp_path / "again")
    assert again.decode([1, 3, 2]) == "do n't .", "in a checkpoint, too"


def test_tokenizer_larger_than_the_model(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = without(model_folder(), tmp_path / "m")
    write_tokenizer(folder, 80)
    with pytest.raises(ConfigError, match="80 tokens and a model of 64"):
        attempt(folder)


def test_settings_that_cannot_work(model_folder: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="512 but the model has 256"):
        attempt(model_folder(), context_length=512)
    with pytest.raises(ConfigError, match="does not know"):
        attempt(model_folder(), device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no GPU"):
            attempt(model_folder(), device="cuda")


def test_unsupported_attention_is_refused_by_name(tmp_path: Path) -> None:
    import transformers as hf

    config = hf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4, eos_token_id=1)
    hf.BloomForCausalLM(config).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    with pytest.raises(ConfigError, match="BloomForCausalLM"):
        attempt(tmp_path)


def test_wrong_output_layer_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnpoint.policy.local.network import Network

    build_model("gemma3").save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    monkeypatch.setattr(Network, "logits", lambda self, hidden: self.head(hidden).float())
    with pytest.raises(ConfigError, match=r"Gemma3ForCausalLM.*output layer"):
        attempt(tmp_path)


def test_end_of_turn_tokens_come_from_all_places(make_policy: MakePolicy, tmp_path: Path) -> None:
    assert make_policy().eos_ids == {1}
    model = build_model("qwen3")
    model.generation_config.eos_token_id = [1, 9]
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    assert attempt(tmp_path).eos_ids == {1, 9}


def test_default_context_length_is_the_models(make_policy: MakePolicy) -> None:
    assert make_policy().context_length == 256
    assert make_policy(context_length=64).context_length == 64
