"""Chat models that are warm-started: in their own template, once, with adapters merged, and found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.policy.settings import policy_registry
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.testing import ToySuite, toy_suite
from turnpoint.training.pretrained import PretrainedPolicySettings
from turnpoint.training.warm_start import REPORT

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PROMPTER = Prompter(PromptSettings(compact=True, show_admissible=False))
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system yes <|im_end|>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ m['content'] }} <|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)
"""Adds a system message of its own, as many chat models do."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained chat model that knows the words of the corridor game."""
    from turnpoint.policy.small import build_small_agent

    texts = [*toy_suite().vocabulary_texts(), *PROMPTER.vocabulary_texts(), "yes"]
    folder = build_small_agent(
        texts, layers=1, width=32, heads=2, kv_heads=1, ffn=48, seed=0, context_length=512,
        folder=tmp_path_factory.mktemp("chat"),
    )  # fmt: skip
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def suite(**changes: Any) -> ToySuite:
    return toy_suite(train_tasks=8, **changes)


def settings(model: Path, **changes: Any) -> PretrainedPolicySettings:
    warm = {"demonstrations": 24, "optimizer": {"lr": 0.01}, "sft": {"batch_tokens": 400}}
    data = {"kind": "pretrained", "model": str(model), "device": "cpu", "warm_start": warm} | changes
    found = policy_registry.parse(data)
    assert isinstance(found, PretrainedPolicySettings)
    return found


def prepared(found: PretrainedPolicySettings, cache: Path, **where: Any) -> Path:
    env, prompter = where.get("env", suite()), where.get("prompter", PROMPTER)
    return Path(found.prepare(env, prompter, cache=cache, seed=where.get("seed", 0)).model)  # type: ignore[attr-defined]


def test_it_learns_to_answer_in_its_own_template(model: Path, tmp_path: Path) -> None:
    found = settings(model)
    assert not found.made(suite(), PROMPTER, cache=tmp_path, seed=0)
    folder = prepared(found, tmp_path)
    assert found.made(suite(), PROMPTER, cache=tmp_path, seed=0)
    report = json.loads((folder / REPORT).read_text())
    assert report["episodes"] == 24
    assert report["losses"][-1] < 0.5 * report["losses"][0]
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE
    assert sorted(p.name for p in folder.iterdir() if p.is_dir()) == [], "a plain model folder"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert prepared(found, tmp_path) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert (prepared(found, tmp_path / "other") / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_demonstrations_read_what_the_policy_will_read(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.training import warm_start

    seen: list[ChatRenderer] = []
    run = warm_start.run_sft

    def spy(policy: Any, episodes: Any, renderer: ChatRenderer, *args: Any, **kwargs: Any) -> Any:
        seen.append(renderer)
        return run(policy, episodes, renderer, *args, **kwargs)

    monkeypatch.setattr(warm_start, "run_sft", spy)
    prepared(settings(model), tmp_path)
    plain = Prompter(PromptSettings(compact=True, show_admissible=False, template="plain"))
    prepared(settings(model), tmp_path, prompter=plain)
    task = suite().tasks("train")[0]
    messages = PROMPTER.messages(task, (), suite().make().reset(task))
    shown = [renderer.text(messages) for renderer in seen]
    assert shown[0].startswith("<|im_start|>system yes")
    assert shown[1].startswith("<|im_start|>user")


def test_whatever_matters_gives_another_model(model: Path, tmp_path: Path) -> None:
    warm = settings(model).warm_start
    folders = [
        prepared(settings(model), tmp_path),
        prepared(settings(model), tmp_path, seed=1),
        prepared(settings(model, warm_start=warm.model_copy(update={"demonstrations": 25})), tmp_path),
        prepared(settings(model), tmp_path, env=suite(rooms=6)),
        prepared(settings(model), tmp_path, prompter=Prompter(PromptSettings(compact=True))),
    ]
    assert len(set(folders)) == len(folders)
    assert prepared(settings(model, optimizer={"lr": 1.0}), tmp_path) == folders[0]


def test_without_demonstrations_it_is_the_model_itself(model: Path, tmp_path: Path) -> None:
    found = settings(model, warm_start={"demonstrations": 0})
    assert prepared(found, tmp_path, env=suite(oracle=False)) == model
    with pytest.raises(ConfigError, match="oracle"):
        prepared(settings(model), tmp_path, env=suite(oracle=False))
    assert not (tmp_path / "pretrained").exists()


def test_adapters_without_peft_are_refused_before_anything_is_trained(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(ConfigError, match=r"pip install 'turnpoint\[lora\]'"):
        prepared(settings(model, lora={"rank": 2}), tmp_path)


def test_the_8_bit_optimizer_without_bitsandbytes_is_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.optim", None)
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    found = settings(model, optimizer={"kind": "adamw8bit"}, warm_start={"demonstrations": 0})
    with pytest.raises(ConfigError, match=r"pip install 'turnpoint\[8bit\]'"):
        found.build(seed=0)
