"""Saving, loading and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.policy import ScoreRequest  # noqa: E402

from .conftest import MakePolicy, episode_rows  # noqa: E402

CASES: list[dict[str, Any]] = [
    {"optimizer": {"kind": "adamw", "lr": 1e-2, "warmup_steps": 3, "weight_decay": 0.01}},
    {"optimizer": {"kind": "muon", "lr": 1e-2}},
    {"optimizer": {"kind": "adamw", "lr": 1e-2}, "dtype": "bfloat16"},
    {"optimizer": {"kind": "muon", "lr": 1e-2}, "loss": {"kl": 0.1}},
]


@pytest.mark.parametrize("settings", CASES)
def test_resume_is_bitwise(make_policy: MakePolicy, tmp_path: Path, settings: dict[str, Any]) -> None:
    straight = make_policy(mini_batch_rows=3, seed=4, **settings)
    rows = [
        [
            r
            for e in range(3)
            for r in episode_rows(straight, np.random.default_rng([s, e]), turns=3, name=f"e{e}")
        ]
        for s in range(4)
    ]
    for part in rows[:2]:
        straight.update(part)
    straight.save(tmp_path / "at2")
    resumed = make_policy(mini_batch_rows=3, seed=4, **settings)
    resumed.load(tmp_path / "at2")
    for part in rows[2:]:
        expected, got = straight.update(part), resumed.update(part)
        expected.pop("seconds"), got.pop("seconds")
        assert got == expected
    for (name, a), b in zip(
        straight.network.model.named_parameters(), resumed.network.model.parameters(), strict=True
    ):
        assert torch.equal(a, b), name
    request = [ScoreRequest((3, 4, 5), (6, 7))]
    np.testing.assert_array_equal(straight.logprobs(request), resumed.logprobs(request))
    if straight.capabilities.reference:
        reference = straight.logprobs(request, "reference")
        np.testing.assert_array_equal(reference, resumed.logprobs(request, "reference"))
        fresh = make_policy(**settings)
        np.testing.assert_array_equal(reference, fresh.logprobs(request))
        assert not np.array_equal(reference, straight.logprobs(request))


def test_a_checkpoint_is_a_model_folder(make_policy: MakePolicy, tmp_path: Path) -> None:
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.settings import LocalPolicySettings

    policy = make_policy()
    policy.save(tmp_path / "deep" / "saved")
    policy.save(tmp_path / "deep" / "saved")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["saved"]
    assert not list((tmp_path / "deep").rglob("*.pt")) + list((tmp_path / "deep").rglob("*.bin"))
    again = LocalPolicy(LocalPolicySettings(model=str(tmp_path / "deep" / "saved")), seed=0)
    request = [ScoreRequest((3, 4, 5), (6, 7))]
    np.testing.assert_array_equal(policy.logprobs(request), again.logprobs(request))
    assert again.tokenizer.encode("w5 w6") == [5, 6]


def test_a_failed_save_leaves_the_old_checkpoint(
    make_policy: MakePolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnpoint.policy.local import checkpoint

    policy = make_policy()
    policy.save(tmp_path / "c")
    content = {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir() if p.is_file()}

    def fail(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        policy.save(tmp_path / "c")
    assert {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir() if p.is_file()} == content


def test_loading_what_does_not_fit(make_policy: MakePolicy, model_folder: Any, tmp_path: Path) -> None:
    policy = make_policy(optimizer={"kind": "muon", "lr": 1e-3})
    with pytest.raises(ConfigError, match="not a checkpoint"):
        policy.load(model_folder())
    policy.update(episode_rows(policy, np.random.default_rng(0), turns=2, name="e"))
    policy.save(tmp_path / "muon")
    with pytest.raises(ConfigError, match=r"optimizer\.kind"):
        make_policy().load(tmp_path / "muon")
    with pytest.raises(ConfigError, match="reference"):
        make_policy(optimizer={"kind": "muon"}, keep_reference=True).load(tmp_path / "muon")
    with pytest.raises(ConfigError, match="another model"):
        make_policy(optimizer={"kind": "muon"}, model={"intermediate_size": 40}).load(tmp_path / "muon")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("state.json", "{", "cannot be read"),
        ("state.json", "[1]", "cannot be read"),
        ("state.json", "{}", "cannot be read: KeyError: 'version'"),
        ("state.json", '{"version": 99}', "checkpoint format 99"),
        ("optimizer.safetensors", "no tensors", "cannot be read"),
        ("optimizer.safetensors", None, "cannot be read"),
    ],
)
def test_a_damaged_training_state_is_said_to_be_one(
    make_policy: MakePolicy, tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    policy = make_policy()
    policy.save(tmp_path / "c")
    path = tmp_path / "c" / "training_state" / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        policy.load(tmp_path / "c")
