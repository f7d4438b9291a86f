"""The local policy meets every assertion, and each assertion finds the fault that is planted for it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from turnpoint.policy import ContextOverflow, PolicyCapabilities
from turnpoint.policy.local import LocalPolicy
from turnpoint.policy.settings import LocalPolicySettings, OptimizerSettings
from turnpoint.testing.conformance import ASSERTIONS, BF16, Assertion, assert_conforms, run_conformance
from turnpoint.testing.harness import random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy
from turnpoint.testing.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("conformance") / "model", context=256, width=32)


def settings(model: Path, **changes: Any) -> LocalPolicySettings:
    return LocalPolicySettings(
        model=str(model), device="cpu", optimizer=OptimizerSettings(lr=5e-3), **{"cache_rows": 16} | changes
    )


def make(model: Path, kind: type[LocalPolicy] = LocalPolicy, **changes: Any) -> LocalPolicy:
    return kind(settings(model, **changes), seed=0)


@pytest.mark.parametrize(
    "changes",
    [{}, {"keep_reference": True, "temperature": 0.7, "merge_rows": "off"}],
    ids=["plain", "reference"],
)
def test_the_local_policy_conforms(model: Path, changes: dict[str, Any]) -> None:
    found = assert_conforms(lambda: make(model, **changes))
    assert [a.name for a in found] == list(ASSERTIONS)
    assert [a.name for a in found if a.ok is None] == []


def test_in_half_precision_it_conforms_within_wider_bounds(model: Path) -> None:
    found = assert_conforms(lambda: make(model, dtype="bfloat16"), bounds=BF16)
    assert [a.name for a in found if a.ok is None] == []


class TellsTheWrongLogprobs(LocalPolicy):
    def advance(self):
        return [(t, replace(s, logprobs=tuple(v - 1e-3 for v in s.logprobs))) for t, s in super().advance()]


class IgnoresSeeds(LocalPolicy):
    draws = itertools.count()

    def submit(self, request):
        return super().submit(replace(request, seed=next(self.draws)))


class OneSeedForAll(LocalPolicy):
    def submit(self, request):
        return super().submit(replace(request, seed=0))


class CutsTheEndToken(LocalPolicy):
    def advance(self):
        def cut(sample):
            if sample.truncated or len(sample.token_ids) < 2:
                return sample
            return replace(sample, token_ids=sample.token_ids[:-1], logprobs=sample.logprobs[:-1])

        return [(ticket, cut(sample)) for ticket, sample in super().advance()]


class CutsLongPrompts(LocalPolicy):
    def submit(self, request):
        room = self.context_length - request.sampling.max_tokens
        return super().submit(replace(request, prompt_ids=request.prompt_ids[-room:]))


class RefusesWithoutType(LocalPolicy):
    def submit(self, request):
        try:
            return super().submit(request)
        except ContextOverflow as error:
            raise RuntimeError(str(error)) from None


class ScoresShifted(LocalPolicy):
    """Each score is that of the token before."""

    by = 1

    def logprobs(self, requests, which="live"):
        return [np.roll(values, self.by) for values in super().logprobs(requests, which)]


class ScoresEarly(ScoresShifted):
    by = -1


class TeacherOfOtherTemperature(LocalPolicy):
    def logprobs(self, requests, which="live"):
        values = super().logprobs(requests, which)
        return [1.01 * v for v in values] if which == "reference" else values


class TwoSteps(LocalPolicy):
    def __init__(self, given, *, seed):
        super().__init__(given.model_copy(update={"mini_batch_rows": 3}), seed=seed)


class OldLogprobsOfAnotherTemperature(LocalPolicy):
    def update(self, rows):
        return super().update([replace(row, old_logprobs=1.02 * row.old_logprobs) for row in rows])


class RepeatsRowsToFillTheBatch(LocalPolicy):
    def update(self, rows):
        return super().update([*rows, rows[0]])


class CountsMaskedTokens(LocalPolicy):
    def update(self, rows):
        metrics = super().update(rows)
        share = sum(r.trained_tokens for r in rows) / sum(len(r.response_ids) for r in rows)
        return metrics | {"pg_loss": metrics["pg_loss"] * share}


class ForgetsTheMask(LocalPolicy):
    def update(self, rows):
        return super().update([replace(row, mask=None) for row in rows])


class TrainsPadding(LocalPolicy):
    """Rows are padded to the longest one with end tokens that train like their last token."""

    def update(self, rows):
        longest = max(len(row.response_ids) for row in rows)

        def pad(row):
            n = longest - len(row.response_ids)
            mask = np.ones(len(row.response_ids), dtype=bool) if row.mask is None else row.mask
            return replace(
                row,
                response_ids=row.response_ids + (0,) * n,
                old_logprobs=np.pad(row.old_logprobs, (0, n), constant_values=-5.5),
                advantages=np.pad(row.advantages, (0, n), constant_values=row.advantages[-1]),
                mask=np.pad(mask, (0, n), constant_values=True),
            )

        return super().update([pad(row) for row in rows])


class TrainsPrompts(LocalPolicy):
    """Prompts are learned by heart, a little."""

    def update(self, rows):
        metrics = super().update(rows)
        ids = [np.array(row.prompt_ids) for row in rows]
        super().supervised_update([(i, np.ones(len(i))) for i in ids], lr_scale=0.1)
        return metrics


class ShiftsAdvantages(LocalPolicy):
    def update(self, rows):
        return super().update([replace(row, advantages=np.roll(row.advantages, 1)) for row in rows])


class ReferenceReplacesTheLiveWeights(LocalPolicy):
    def logprobs(self, requests, which="live"):
        if which == "reference":
            self.network.model.load_state_dict(self._reference.model.state_dict())
        return super().logprobs(requests, which)


class SamplesWithOldWeights(LocalPolicy):
    """New weights are never sent to the sampler."""

    def __init__(self, given, *, seed):
        super().__init__(given, seed=seed)
        self.old = LocalPolicy(given, seed=seed)

    def submit(self, request):
        return self.old.submit(request)

    def advance(self):
        return self.old.advance()

    def forget_sessions(self):
        self.old.forget_sessions()


class ForgetsTheOptimizer(LocalPolicy):
    def load(self, folder):
        state = json.loads((folder / "training_state/state.json").read_text())
        super().load(folder)
        fresh = LocalPolicy(self.settings, seed=0)._stepper.state_dict()
        self._stepper.load_state_dict(fresh, 0)
        self._updater.updates = state["updates"]


class LoadsNothing(LocalPolicy):
    def load(self, folder):
        """The weights stay what they are."""


PLANTED: list[tuple[type[LocalPolicy], str]] = [
    (TellsTheWrongLogprobs, "sampler_equals_trainer"),
    (IgnoresSeeds, "same_seed_same_sample"),
    (OneSeedForAll, "same_seed_same_sample"),
    (CutsTheEndToken, "turns_end"),
    (CutsLongPrompts, "overflow_is_typed"),
    (RefusesWithoutType, "overflow_is_typed"),
    (ScoresShifted, "scores_aligned"),
    (ScoresEarly, "scores_aligned"),
    (TeacherOfOtherTemperature, "teacher_like_student"),
    (TwoSteps, "one_optimizer_step"),
    (OldLogprobsOfAnotherTemperature, "on_policy_kl_is_zero"),
    (RepeatsRowsToFillTheBatch, "loss_is_mean_advantage"),
    (CountsMaskedTokens, "loss_is_mean_advantage"),
    (ForgetsTheMask, "observations_never_train"),
    (TrainsPadding, "padding_never_trains"),
    (TrainsPrompts, "nothing_trains_without_advantage"),
    (ShiftsAdvantages, "advantages_hit_their_tokens"),
    (ReferenceReplacesTheLiveWeights, "only_updates_change_weights"),
    (SamplesWithOldWeights, "updates_reach_the_sampler"),
    (ForgetsTheOptimizer, "checkpoints_restore_all"),
    (LoadsNothing, "checkpoints_restore_all"),
]


@pytest.mark.parametrize(("kind", "name"), PLANTED, ids=[kind.__name__ for kind, _ in PLANTED])
def test_a_planted_fault_is_found_by_its_assertion(model: Path, kind: type[LocalPolicy], name: str) -> None:
    (found,) = run_conformance(lambda: make(model, kind, keep_reference=True), names=[name])
    assert found.ok is False
    assert "look at" in found.detail
    assert len(found.detail) > 40


def test_every_assertion_has_a_planted_fault() -> None:
    assert {name for _, name in PLANTED} == set(ASSERTIONS)


def test_a_teacher_of_other_weights_is_found(model: Path) -> None:
    policy = make(model)

    def teacher(requests):
        return [values - 0.01 for values in policy.logprobs(requests)]

    (found,) = run_conformance(lambda: policy, teacher=teacher, names=["teacher_like_student"])
    assert (found.ok, round(found.value, 4)) == (False, 0.01)


def test_what_a_backend_raises_is_a_finding(model: Path) -> None:
    class Broken(LocalPolicy):
        def update(self, rows):
            raise RuntimeError("the workers are gone")

    heard: list[Assertion] = []
    found = run_conformance(
        lambda: make(model, Broken), names=["one_optimizer_step", "scores_aligned"], progress=heard.append
    )
    assert [a.ok for a in found] == [False, True]
    assert "the workers are gone" in found[0].detail
    assert heard == found
    assert json.loads(json.dumps(found[0].to_dict(), allow_nan=False))["value"] is None
    with pytest.raises(AssertionError, match="one_optimizer_step: the backend raised"):
        assert_conforms(lambda: make(model, Broken), names=["one_optimizer_step"])


def test_an_assertion_that_cannot_be_tested_says_so(model: Path) -> None:
    still = settings(model).without_learning()
    assert isinstance(still, LocalPolicySettings)
    found = run_conformance(
        lambda: LocalPolicy(still, seed=0), names=["padding_never_trains", "updates_reach_the_sampler"]
    )
    assert [a.ok for a in found] == [None, None]
    assert all("too little" in a.detail for a in found)


def test_a_policy_without_updates_is_seen_through() -> None:
    found = run_conformance(lambda: ScriptedPolicy(random_agent()), names=["one_optimizer_step"])
    assert found[0].ok is False
    assert "optimizer_steps" in found[0].detail


def test_a_policy_that_cannot_be_saved_is_a_finding() -> None:
    class Unsaved(ScriptedPolicy):
        capabilities = PolicyCapabilities(reference=False, sessions=False, full_distribution=False)

        def save(self, folder):
            raise NotImplementedError("save")

    (found,) = run_conformance(lambda: Unsaved(random_agent()))
    assert (found.name, found.ok) == ("protocol", False)
