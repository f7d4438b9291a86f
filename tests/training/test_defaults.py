"""Settings that a method brings along lie under the user's own, and a run that cannot be is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.gspo import GSPOSettings
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config

BASE = {"env": {"kind": TOY}, "policy": {"kind": "local", "model": "none"}, "method": "gspo"}


def test_published_settings_are_laid_under() -> None:
    loss = load_run_config(BASE).policy.loss
    assert (loss.ratio, loss.aggregation, loss.clip, loss.clip_high) == (
        "sequence", "seq-mean-token-mean", 3e-4, 4e-4,
    )  # fmt: skip
    assert load_run_config({**BASE, "method": "grpo"}).policy.loss.ratio == "token"
    assert load_run_config({**BASE, "method": GSPOSettings()}).policy.loss.ratio == "sequence"


def test_the_users_own_settings_win() -> None:
    policy = {"kind": "local", "model": "none", "loss": {"clip": 0.1}, "temperature": 0.5}
    config = load_run_config({**BASE, "policy": policy}, ["policy.loss.aggregation=token-mean"])
    assert (config.policy.loss.clip, config.policy.loss.clip_high) == (0.1, 4e-4)
    assert config.policy.loss.aggregation == "token-mean"
    assert config.policy.temperature == 0.5


def test_an_override_of_the_method_brings_its_defaults() -> None:
    config = load_run_config({**BASE, "method": "grpo"}, ["method.kind=react"])
    assert config.train.steps == 0
    assert config.prompt.reasoning
    assert load_run_config({**BASE, "method": "react"}, ["train.steps=3"]).train.steps == 3


def test_what_a_policy_does_not_have_is_left_out() -> None:
    class Bare(LocalPolicySettings):
        pass

    data = {**BASE, "policy": LocalPolicySettings(model="none")}
    assert load_run_config(data).policy.loss.ratio == "token"  # a settings object is the user's own
    config = load_run_config({**BASE, "policy": "local"} | {"policy": {"kind": "local", "model": "x"}})
    assert config.policy.loss.ratio == "sequence"


def test_faults_stay_with_validation() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gspo'"):
        load_run_config({**BASE, "method": "gsop"})
    with pytest.raises(ConfigError, match="did you mean 'local'"):
        load_run_config({**BASE, "policy": {"kind": "locl", "model": "x"}})
    with pytest.raises(ConfigError):
        load_run_config({**BASE, "policy": 3})


@pytest.fixture
def agent(tmp_path: Path) -> str:
    pytest.importorskip("torch")
    from turnpoint.policy.small.build import build_small_agent
    from turnpoint.testing import toy_suite

    texts = [*toy_suite().vocabulary_texts(), "a b"]
    folder = build_small_agent(texts, width=16, ffn=16, seed=0, context_length=256, folder=tmp_path / "agent")
    return str(folder)


def test_runs_that_cannot_be_are_refused_before_they_start(agent: str, tmp_path: Path) -> None:
    base = {**BASE, "policy": {"kind": "local", "model": agent}}
    with pytest.raises(ConfigError, match=r"policy\.loss\.ratio is 'token'"):
        build_run(load_run_config(base, ["policy.loss.ratio=token"]), tmp_path)
    with pytest.raises(ConfigError, match=r"train\.steps is 3"):
        build_run(load_run_config({**base, "method": "reflexion"}, ["train.steps=3"]), tmp_path)
    build_run(load_run_config({**base, "method": "reflexion"}, ["train.steps=3"]), tmp_path, training=False)
    assert build_run(load_run_config({**base, "method": "reflexion"}), tmp_path).config.train.steps == 0
