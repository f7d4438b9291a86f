"""The built-in agent as a policy section: made once, found again, made anew when something that matters changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.envs import EnvError
from turnpoint.policy.settings import policy_registry
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.testing import ToySuite, toy_suite
from turnpoint.training.sft import SftProgress
from turnpoint.training.small_agent import SmallPolicySettings
from turnpoint.training.warm_start import REPORT, warm_started_folder

pytest.importorskip("torch")

PROMPTER = Prompter(PromptSettings(compact=True, show_admissible=False))
SIZE = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "ffn": 24, "context_length": 512}


def settings(**changes: Any) -> SmallPolicySettings:
    data = {"kind": "small", "warm_start": {"demonstrations": 20}} | SIZE | changes
    found = policy_registry.parse(data)
    assert isinstance(found, SmallPolicySettings)
    return found


def suite(**changes: Any) -> ToySuite:
    return toy_suite(train_tasks=8, **changes)


def made(
    cache: Path, *, seed: int = 0, prompter: Prompter = PROMPTER, env: Any = None, **changes: Any
) -> Path:
    return warm_started_folder(
        settings(**changes), env or suite(), prompter, cache, seed, progress=lambda _: None
    )


def test_prepare_gives_a_policy_that_speaks_the_language(tmp_path: Path) -> None:
    ready = settings().prepare(suite(), PROMPTER, cache=tmp_path, seed=0)
    policy = ready.build(seed=0)
    env = suite()
    messages = PROMPTER.messages(env.tasks("train")[0], (), env.make().reset(env.tasks("train")[0]))
    prompt = ChatRenderer(policy.tokenizer).prompt_ids(messages)
    assert policy.tokenizer.unk_token_id not in prompt
    assert policy.context_length == 512


def test_the_result_is_found_again_and_other_processes_make_the_same(tmp_path: Path) -> None:
    first = made(tmp_path / "a")
    before = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    assert made(tmp_path / "a") == first
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == before
    second = made(tmp_path / "b")
    assert second.name == first.name
    assert (second / "model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()
    assert [path.name for path in first.parent.iterdir()] == [first.name], "nothing half-made is left behind"


def test_whatever_matters_gives_another_agent(tmp_path: Path) -> None:
    other = Prompter(PromptSettings(compact=True, show_admissible=True))
    folders = [
        made(tmp_path),
        made(tmp_path, seed=1),
        made(tmp_path, width=32),
        made(tmp_path, warm_start={"demonstrations": 21}),
        made(tmp_path, warm_start={"demonstrations": 20, "play": {"noise": 0.3}}),
        made(tmp_path, prompter=other),
        made(tmp_path, env=suite(rooms=6)),
        made(tmp_path, env=suite(max_turns=10)),
    ]
    assert len(set(folders)) == len(folders)
    same = made(tmp_path, optimizer={"kind": "adamw", "lr": 1.0})
    assert same == folders[0], "the optimizer of the run's own training does not matter"


def test_the_report_tells_what_was_done(tmp_path: Path) -> None:
    steps: list[SftProgress] = []
    folder = warm_started_folder(settings(), suite(), PROMPTER, tmp_path, 0, progress=steps.append)
    report = json.loads((folder / REPORT).read_text())
    assert report["episodes"] == 20
    assert report["steps"] == len(steps) > 0
    assert report["cpu_seconds"] > 0
    assert not (folder / "training_state").exists()


def test_no_demonstrations_means_an_untrained_agent(tmp_path: Path) -> None:
    folder = made(tmp_path, warm_start={"demonstrations": 0}, env=suite(oracle=False))
    assert json.loads((folder / REPORT).read_text())["steps"] == 0


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(_: SftProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm_started_folder(settings(), suite(), PROMPTER, tmp_path, 0, progress=fail)
    assert list((tmp_path / "small").iterdir()) == []


def test_progress_is_told_on_the_error_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings().prepare(suite(), PROMPTER, cache=tmp_path, seed=0)
    out, err = capsys.readouterr()
    assert "warm start: 100%" in err
    assert out == ""


class OpenSuite(ToySuite):
    def vocabulary_texts(self) -> Iterator[str]:
        raise EnvError("anybody may say anything")


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"closed language.*anybody may say anything"):
        made(tmp_path, env=OpenSuite(suite().settings))
    with pytest.raises(ConfigError, match="oracle"):
        made(tmp_path, env=suite(oracle=False))
    with pytest.raises(ConfigError, match="limited to 30"):
        made(tmp_path, max_vocabulary=30)
    with pytest.raises(ConfigError, match="has not been made"):
        settings().build(seed=0)


def test_a_given_folder_is_used_as_it_is(tmp_path: Path) -> None:
    folder = made(tmp_path / "cache")
    given = settings(model=str(folder))
    assert given.prepare(suite(), PROMPTER, cache=tmp_path / "other", seed=5) is given
    assert not (tmp_path / "other").exists()
