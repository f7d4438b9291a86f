"""The suite: every assertion by name, run against one policy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnpoint.policy.protocol import Policy
from turnpoint.testing.conformance import sampling, scoring, updating
from turnpoint.testing.conformance.bench import FP32, Bench, Bounds, Teacher
from turnpoint.testing.conformance.outcome import Assertion, Check, judged

ASSERTIONS: dict[str, Check] = {
    "sampler_equals_trainer": sampling.sampler_equals_trainer,
    "same_seed_same_sample": sampling.same_seed_same_sample,
    "turns_end": sampling.turns_end,
    "overflow_is_typed": sampling.overflow_is_typed,
    "scores_aligned": scoring.scores_aligned,
    "teacher_like_student": scoring.teacher_like_student,
    "one_optimizer_step": updating.one_optimizer_step,
    "on_policy_kl_is_zero": updating.on_policy_kl_is_zero,
    "loss_is_mean_advantage": updating.loss_is_mean_advantage,
    "only_updates_change_weights": scoring.only_updates_change_weights,
    "updates_reach_the_sampler": scoring.updates_reach_the_sampler,
    "observations_never_train": updating.observations_never_train,
    "padding_never_trains": updating.padding_never_trains,
    "nothing_trains_without_advantage": updating.nothing_trains_without_advantage,
    "advantages_hit_their_tokens": updating.advantages_hit_their_tokens,
    "checkpoints_restore_all": updating.checkpoints_restore_all,
}
"""In an order that needs few updates."""


def run_conformance(
    factory: Callable[[], Policy],
    *,
    bounds: Bounds = FP32,
    teacher: Teacher | None = None,
    names: Sequence[str] | None = None,
    folder: Path | None = None,
    progress: Callable[[Assertion], Any] | None = None,
) -> list[Assertion]:
    """Every assertion (or those of ``names``) about the policy that ``factory`` makes, called once.

    Args:
        bounds: ``FP32``, ``BF16`` or others; how far equal numbers may lie apart.
        teacher: Scores requests as a teacher with the student's first weights does; the default asks the reference
            policy, or else the student itself.
        folder: Where checkpoints go; the default is a temporary folder.
        progress: Hears of each assertion as it is done.

    A failing assertion is an outcome and never an exception; what ``factory`` raises is raised. Raises ``KeyError``
    for a name that is no assertion.
    """
    chosen = {name: ASSERTIONS[name] for name in (ASSERTIONS if names is None else names)}
    policy, made = factory(), list[Assertion]()

    def tell(assertion: Assertion) -> None:
        made.append(assertion)
        if progress is not None:
            progress(assertion)

    with tempfile.TemporaryDirectory() as temporary:
        try:
            bench = Bench(policy, folder or Path(temporary), bounds, teacher)
        except Exception as error:
            said = f"scoring or saving raised {type(error).__name__}: {str(error)[:500]}; look at Policy"
            tell(Assertion("protocol", False, float("nan"), 0.0, said))
            return made
        for name, check in chosen.items():
            tell(judged(name, check, bench))
    return made


def assert_conforms(factory: Callable[[], Policy], **options: Any) -> list[Assertion]:
    """``run_conformance`` for tests. Raises ``AssertionError`` that names every assertion that does not hold."""
    found = run_conformance(factory, **options)
    faults = [f"{a.name}: {a.detail}" for a in found if a.ok is False]
    if faults:
        raise AssertionError("\n".join(faults))
    return found
