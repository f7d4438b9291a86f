"""``turnpoint sft``: episodes are rendered as the model will read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import EpisodeWriter
from turnpoint.testing import toy_suite
from turnpoint.training.demonstrations import make_demonstrations

pytest.importorskip("torch")
PROMPTER = Prompter(PromptSettings(compact=True, show_admissible=False))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    from turnpoint.policy.small import build_small_agent

    texts = [*toy_suite().vocabulary_texts(), *PROMPTER.vocabulary_texts()]
    return build_small_agent(
        texts, layers=1, width=16, heads=2, kv_heads=1, ffn=24, seed=0, context_length=512,
        folder=tmp_path / "model",
    )  # fmt: skip


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    path, suite = tmp_path / "episodes.jsonl", toy_suite(train_tasks=4)
    with EpisodeWriter(path) as writer:
        for episode in make_demonstrations(suite, PROMPTER, suite.tasks("train")):
            for number, turn in enumerate(episode.turns):
                turn.messages = PROMPTER.messages(episode.task, episode.turns[:number], turn.observation)
            writer.write(episode)
    return path


@pytest.mark.parametrize(
    ("overrides", "plain", "template"),
    [
        ([], False, "sampled"),
        (["prompt.template=plain", "prompt.earlier_replies=template"], True, "template"),
    ],
)
def test_a_prompt_section_says_how_episodes_are_rendered(
    model: Path, episodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    overrides: list[str], plain: bool, template: str,
) -> None:  # fmt: skip
    from turnpoint.training import sft

    seen: list[ChatRenderer] = []
    run = sft.run_sft

    def spy(policy: Any, source: Any, renderer: ChatRenderer, *args: Any, **kwargs: Any) -> Any:
        seen.append(renderer)
        return run(policy, source, renderer, *args, **kwargs)

    monkeypatch.setattr(sft, "run_sft", spy)
    extra = [part for override in overrides for part in ("--set", override)]
    result = CliRunner().invoke(
        app, ["sft", str(model), str(episodes), "--out", str(tmp_path / "out"), *extra]
    )
    assert result.exit_code == 0, result.output
    assert (seen[0].template.plain, seen[0].replies) == (plain, template)
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.parametrize(("overrides", "weight"), [([], 0.0), (["sft.observation_weight=0.1"], 0.1)])
def test_only_responses_are_trained_unless_prompts_are_asked_for(
    model: Path, episodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    overrides: list[str], weight: float,
) -> None:  # fmt: skip
    from turnpoint.policy.local import LocalPolicy

    weights: set[float] = set()
    update = LocalPolicy.supervised_update

    def spy(self: LocalPolicy, sequences: Any, **kwargs: Any) -> Any:
        weights.update(round(float(value), 6) for _, values in sequences for value in values)
        return update(self, sequences, **kwargs)

    monkeypatch.setattr(LocalPolicy, "supervised_update", spy)
    extra = [part for override in overrides for part in ("--set", override)]
    result = CliRunner().invoke(
        app, ["sft", str(model), str(episodes), "--out", str(tmp_path / "out"), *extra]
    )
    assert result.exit_code == 0, result.output
    assert weights == {0.0, weight, 1.0}


def test_unknown_sections_are_named(model: Path, episodes: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out"), "--set", "promt.template=plain"]
    result = CliRunner().invoke(app, ["sft", str(model), str(episodes), *out])
    assert result.exit_code == 2
    assert "use sft, policy or prompt" in result.output
