from __future__ import annotations

from pathlib import Path

import pytest

from turnpoint.config import ConfigError, Registry, Settings, apply_overrides, load_yaml
from turnpoint.config.explain import names_secret, redact
from turnpoint.testing.toy_env import KIND as TOY
from turnpoint.training.settings import RunConfig, load_run_config

MINIMAL = {
    "env": {"kind": TOY},
    "policy": {"kind": "local", "model": "model"},
    "method": {"kind": "grpo"},
}


def test_unknown_keys_name_the_nearest_valid_one() -> None:
    with pytest.raises(ConfigError, match=r"method: unknown setting 'normalize'; did you mean 'normalise'\?"):
        load_run_config(MINIMAL, ["method.normalize=mean"])
    with pytest.raises(ConfigError, match=r"unknown setting 'trian'; did you mean 'train'\?"):
        load_run_config(MINIMAL, ["trian.steps=3"])


def test_unknown_kinds_name_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'pivotopd'"):
        load_run_config(MINIMAL, ["method.kind=pivotop"])
    with pytest.raises(ConfigError, match="module:attr"):
        load_run_config(MINIMAL, ["env.kind=zzz"])


def test_all_faults_come_at_once_with_their_paths() -> None:
    with pytest.raises(ConfigError) as caught:
        load_run_config(MINIMAL, ["train.steps=-1", "method.group=0", "eval.tasks=many"])
    text = str(caught.value)
    assert "train.steps" in text
    assert "method.group" in text or "group" in text
    assert "eval.tasks" in text
    assert "many" in text


def test_overrides_are_typed_and_nested() -> None:
    config = load_run_config(MINIMAL, ["train.steps=7", "policy.loss.kl=0.01", "method.normalise=mean"])
    assert config.train.steps == 7
    assert config.policy.loss.kl == 0.01
    assert config.method.normalise == "mean"


def test_changing_a_kind_replaces_the_section() -> None:
    data = MINIMAL | {"method": {"kind": "pivotopd", "w_rec": 0.5}}
    config = load_run_config(data, ["method.kind=grpo"])
    assert config.method.kind == "grpo"


def test_a_kind_alone_is_enough() -> None:
    assert load_run_config(MINIMAL | {"method": "grpo"}, ["method.group=4"]).method.group == 4


@pytest.mark.parametrize("override", ["train.steps", "=3", "train..steps=1", "seed.x=1"])
def test_malformed_overrides(override: str) -> None:
    with pytest.raises(ConfigError, match="override"):
        apply_overrides({"seed": 1}, [override])


@pytest.mark.parametrize(
    "override",
    [
        "teacher.base_url=http://me:SECRET@host/v1",
        "teacher.base_url=http://me:SECRET/more@host/v1",
        "teacher.base_url=me:SECRET@host/v1",
        "teacher.base_url=ftp://host/v1?api_key=SECRET&x=1",
        "teacher.api_key_env=sk-SECRET",
        "teacher.timeout=http://SECRET@host",
        "teacher.api_key='SECRET",
        "teacher.base_url={http://me:SECRET@host",
        "teacher.kind.x=http://me:SECRET@host",
        "policy.kind=http://me:SECRET@host",
        "http://me:SECRET@host",
    ],
)
def test_secrets_are_not_repeated(override: str) -> None:
    teacher = {"kind": "http", "base_url": "http://host/v1", "model": "m"}
    with pytest.raises(ConfigError) as caught:
        load_run_config(MINIMAL | {"teacher": teacher}, [override])
    assert "SECRET" not in str(caught.value)


def test_what_is_no_secret_is_shown() -> None:
    assert redact("mean@k of http://host:80/v1, me@host") == "mean@k of http://host:80/v1, me@host"
    assert names_secret("teacher.extra_body.hf_token")
    assert not names_secret("policy.token_budget")
    assert not names_secret("rollout.max_response_tokens")
    with pytest.raises(ConfigError, match=r"policy\.token_budget.*set to 'many'"):
        load_run_config(MINIMAL, ["policy.token_budget=many"])


def test_a_broken_file_is_placed_without_its_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("teacher:\n  api_key: 'SECRET\n")
    with pytest.raises(ConfigError, match="line 3") as caught:
        load_yaml(path)
    assert "SECRET" not in str(caught.value)


def test_cut_sampling_is_refused_in_training() -> None:
    with pytest.raises(
        ConfigError, match=r"rollout.top_p=0.9.*set them to 1 and 0.*recompute_old_logprobs=true"
    ):
        load_run_config(MINIMAL, ["rollout.top_p=0.9"])
    load_run_config(MINIMAL, ["eval.top_p=0.9"])
    load_run_config(MINIMAL, ["rollout.top_p=0.9", "train.recompute_old_logprobs=true"])


def test_sampling_at_another_temperature_is_refused_in_training() -> None:
    with pytest.raises(ConfigError, match=r"set policy\.temperature=0\.7"):
        load_run_config(MINIMAL, ["rollout.temperature=0.7"])
    for allowed in (
        ["rollout.temperature=0.7", "policy.temperature=0.7"],
        ["rollout.temperature=1"],
        ["rollout.temperature=0.7", "train.steps=0"],
        ["rollout.temperature=0.7", "train.recompute_old_logprobs=true"],
        ["policy.temperature=0.7"],
    ):
        load_run_config(MINIMAL, allowed)


def test_unknown_loggers_name_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"loggers: .*'tensorbord'; did you mean 'tensorboard'\?"):
        load_run_config(MINIMAL, ["loggers=[tensorbord]"])
    assert load_run_config(MINIMAL, ["loggers=[tensorboard]"]).loggers == ["tensorboard"]


def test_resolved_config_round_trips() -> None:
    config = load_run_config(MINIMAL, ["method.group=3"])
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_bases_are_laid_under(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("env: {kind: x, size: 1}\nmethod: {kind: grpo, group: 2}\nseed: 1\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\nmethod: {group: 5}\nenv: {kind: y}\n")
    data = load_yaml(tmp_path / "b.yaml")
    assert data == {"env": {"kind": "y"}, "method": {"kind": "grpo", "group": 5}, "seed": 1}
    (tmp_path / "c.yaml").write_text("base: d.yaml\n")
    (tmp_path / "d.yaml").write_text("base: c.yaml\n")
    with pytest.raises(ConfigError, match="each other"):
        load_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize("content", ["[1, 2]", "a: [", "\xff"])
def test_files_that_are_no_config(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"x\.yaml"):
        load_yaml(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_yaml(tmp_path / "missing.yaml")


def test_registry_takes_outside_classes_and_checks_them() -> None:
    class Base(Settings):
        kind: str

    registry: Registry[Base] = Registry("turnpoint.test", Base, {"bad": "json:dumps", "gone": "nowhere:x"})
    with pytest.raises(ConfigError, match="not a subclass"):
        registry.get("bad")
    with pytest.raises(ConfigError, match="cannot be imported"):
        registry.get("gone")
    with pytest.raises(ConfigError, match="cannot be imported"):
        registry.get(":x")
    with pytest.raises(ConfigError, match="needs 'kind'"):
        registry.parse({"x": 1})


def test_a_section_given_in_part_keeps_the_rest_of_its_default() -> None:
    class Inner(Settings):
        kind: str = "adamw"
        lr: float = 1e-6
        betas: tuple[float, float] = (0.9, 0.95)

    class Middle(Settings):
        inner: Inner = Inner(kind="muon", lr=3e-3)
        size: int = 1

    class Outer(Settings):
        middle: Middle = Middle(inner=Inner(kind="muon", lr=0.02), size=7)

    partly = Outer.model_validate({"middle": {"inner": {"betas": [0.5, 0.6]}}})
    assert partly.middle == Middle(inner=Inner(kind="muon", lr=0.02, betas=(0.5, 0.6)), size=7)
    assert Middle.model_validate({"inner": {"lr": 1.0}}).inner == Inner(kind="muon", lr=1.0)
    assert Middle.model_validate({"inner": {"kind": "adamw"}}).inner == Inner()
    with pytest.raises(ValueError, match="did you mean 'betas'"):
        Outer.model_validate({"middle": {"inner": {"beta": [0.5, 0.6]}}})


def test_a_room_above_can_add_a_kind_but_not_replace_one() -> None:
    registry: Registry[Settings] = Registry("turnpoint.test", Settings, {"a": "x:A"})
    registry.add("b", "turnpoint.training.settings:TrainSettings")
    registry.add("b", "turnpoint.training.settings:TrainSettings")
    assert registry.names() == ["a", "b"]
    assert registry.get("b").__name__ == "TrainSettings"
    with pytest.raises(ValueError, match="registered already, as x:A"):
        registry.add("a", "y:B")
