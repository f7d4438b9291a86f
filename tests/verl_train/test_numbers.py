"""What an update computes: losses, gradients and masks, against the local policy on identical rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.losses import ppo_loss

from turnpoint.policy.local import LocalPolicy
from turnpoint.policy.protocol import ScoreRequest
from turnpoint.policy.settings import LocalPolicySettings, LossSettings
from turnpoint.policy.verl.compose import compose_config
from turnpoint.policy.verl.translate import verl_settings
from turnpoint.records import Row
from turnpoint.testing.conformance import run_conformance

from .conftest import RATE

LOSSES = {
    "token-mean with KL": {"kl": 0.01},
    "clip higher, dual clip": {"clip": 0.1, "clip_high": 0.4, "dual_clip": 3.0},
    "mean over rows of means": {"aggregation": "seq-mean-token-mean", "clip": 0.15},
    "mean over rows of sums": {"aggregation": "seq-mean-token-sum"},
    "GSPO": {"ratio": "sequence", "aggregation": "seq-mean-token-mean", "clip": 0.002, "clip_high": 0.003},
}


class Borrowed:
    """A policy that whoever is done with it cannot close."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def close(self) -> None:
        """It belongs to the session."""


@pytest.mark.parametrize("source", ["servers", "actor"])
def test_the_policy_conforms(
    source: str, policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever scores; with the trainer scoring, the sampler is compared with it directly."""
    assert policy.scoring_gap < 1e-5  # between both, measured when the policy was built
    monkeypatch.setattr(policy._scorer, "source", source)
    found = run_conformance(lambda: Borrowed(policy), folder=tmp_path)
    assert not [f"{a.name}: {a.detail}" for a in found if a.ok is False]
    assert sum(a.ok is True for a in found) >= 14


def make_rows(vocabulary: int, *, off: float) -> list[Row]:
    """Rows of unlike lengths, an odd number of sequences, some tokens masked; ``off``: noise on the old log-probs."""
    rng = np.random.default_rng(3)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(5, vocabulary, count))

    parts = [(ids(9), ids(6)), (ids(30), ids(2)), (ids(4), ids(11)), (ids(17), ids(7))]
    parts.append(((*parts[0][0], *parts[0][1], *ids(4)), ids(5)))
    rows = []
    for turn, (prompt, response) in enumerate(parts):
        n = len(response)
        mask = rng.random(n) < 0.8
        mask[0] = True
        old = rng.normal(scale=off, size=n)
        rows.append(
            Row(
                prompt, response, old, rng.normal(size=n), mask=mask if turn else None, episode="e", turn=turn
            )
        )
    return rows


@pytest.fixture
def restored(policy: Any) -> Iterator[Any]:
    """The policy, whose loss a test may exchange."""
    before = policy.engine.settings
    yield policy
    set_loss(policy, before.loss)
    policy.engine.settings = before


def set_loss(policy: Any, loss: LossSettings) -> None:
    """Give verl's workers another loss, translated as for a new policy."""
    settings = policy.settings.model_copy(update={"loss": loss})
    config = compose_config(verl_settings(settings, context=policy.context_length, seed=0))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    policy.engine.workers.set_loss_fn(partial(ppo_loss, config=actor))
    policy.engine.settings = settings


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_are_those_of_the_local_policy(
    name: str, restored: Any, model: Path, tmp_path: Path
) -> None:
    policy, loss = restored, LossSettings.model_validate(LOSSES[name])
    set_loss(policy, loss)
    local = local_policy(model, loss)
    rows = make_rows(len(policy.tokenizer), off=0.0)
    scored = local.logprobs([ScoreRequest(row.prompt_ids, row.response_ids) for row in rows])
    for row, noise in zip(make_rows(len(policy.tokenizer), off=0.2), rows, strict=True):
        noise.old_logprobs = row.old_logprobs
    for row, values in zip(rows, scored, strict=True):
        row.old_logprobs = row.old_logprobs + values
    ours, theirs = policy.update(rows), local.update(rows)
    for metric in ("loss", "pg_loss", "grad_norm"):
        assert ours[metric] == pytest.approx(theirs[metric], rel=1e-4, abs=1e-6), metric
    policy.save(tmp_path / "verl")
    mine, other = moments(tmp_path / "verl"), local_moments(local)
    assert mine.keys() == other.keys()
    largest = max(float(value.abs().max()) for value in other.values())
    for key, value in other.items():
        assert float((mine[key] - value).abs().max()) <= 1e-4 * largest, key
    # as many optimizer steps as mini-batches of ours, whatever verl would have made of them
    assert ours["optimizer_steps"] == 1
    assert ours["padding_sequences"] == (-ours["sequences"]) % 2


def local_policy(model: Path, loss: LossSettings) -> LocalPolicy:
    optimizer = {"kind": "adamw", "lr": RATE}
    return LocalPolicySettings.model_validate(
        {"model": str(model), "context_length": 1024, "loss": loss, "optimizer": optimizer}
    ).build(seed=0)


def moments(folder: Path) -> dict[str, torch.Tensor]:
    """First moments of verl's AdamW after one step, (1 - beta1) times the clipped gradient, by weight; whole."""
    shards = [
        torch.load(folder / f"training_state/verl/optim_world_size_2_rank_{rank}.pt", weights_only=False)
        for rank in range(2)
    ]
    weights = [
        torch.load(folder / f"training_state/verl/model_world_size_2_rank_{rank}.pt", weights_only=False)
        for rank in range(2)
    ]
    names = [
        name
        for name in weights[0]
        if not (name == "lm_head.weight" and len(weights[0]) > len(shards[0]["state"]))
    ]
    found = {}
    for number, state in shards[0]["state"].items():
        assert float(state["step"]) == 1.0
        parts = [shard["state"][number]["exp_avg"] for shard in shards]
        found[names[number]] = torch.cat([part._local_tensor for part in parts])
    return found


def local_moments(policy: LocalPolicy) -> dict[str, torch.Tensor]:
    state = policy._stepper.state_dict()
    return {key.split("/")[1]: value for key, value in state.items() if key.endswith("/exp_avg")}


def test_rows_of_padding_never_train(policy: Any, tmp_path: Path) -> None:
    """Three sequences on two ranks: a fourth is filled in, and whatever tokens it has changes nothing."""
    rows = make_rows(len(policy.tokenizer), off=0.0)[1:4]
    for row in rows:
        row.old_logprobs = policy.logprobs([ScoreRequest(row.prompt_ids, row.response_ids)])[0]
    policy.save(tmp_path / "before")
    probe = [ScoreRequest(row.prompt_ids, row.response_ids) for row in rows]
    found = policy.update(rows)
    assert found["padding_sequences"] == 1
    gained = sum(float(row.advantages[row.mask].sum()) for row in rows)
    assert found["pg_loss"] == pytest.approx(-gained / sum(row.trained_tokens for row in rows), abs=1e-6)
    alone = policy.logprobs(probe)
    policy.load(tmp_path / "before")
    idle = [
        Row(r.prompt_ids, r.response_ids, r.old_logprobs, 9.0 * r.advantages, mask=r.mask) for r in rows[:1]
    ]
    idle[0].mask = np.zeros(len(idle[0].response_ids), dtype=np.bool_)
    again = policy.update(
        [*rows, *idle]
    )  # the same rows, and one that trains nothing in place of the padding
    assert again["rows_dropped/fully_masked"] == 1
    for a, b in zip(alone, policy.logprobs(probe), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_mini_batches_are_those_of_the_local_policy(restored: Any, model: Path) -> None:
    policy = restored
    policy.engine.settings = policy.settings.model_copy(update={"mini_batch_rows": 2})
    local = local_policy(model, policy.settings.loss)
    local.settings = local.settings.model_copy(update={"mini_batch_rows": 2})
    local._updater.settings = local.settings
    rows = make_rows(len(policy.tokenizer), off=0.1)
    steps = policy.optimizer_steps
    ours, theirs = policy.update(rows), local.update(rows)
    assert ours["optimizer_steps"] == theirs["optimizer_steps"] == policy.optimizer_steps - steps > 1
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3, abs=1e-5)
    probe = [ScoreRequest(row.prompt_ids, row.response_ids) for row in rows]
    for a, b in zip(policy.logprobs(probe), local.logprobs(probe), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)
