"""The published numbers, and how far the model may be from them before somebody has to look."""

from __future__ import annotations

import pytest

from turnpoint.planning import Efficiency
from turnpoint.planning.published import checks, scaled

FOUND = {check.what: check for check in checks()}


def test_the_published_numbers_are_those_of_the_sources() -> None:
    published = {name: check.published for name, check in FOUND.items()}
    assert published["self-teacher pass"] == 1.047
    assert [published[f"K = {k}"] for k in (1, 2, 3)] == [1.124, 1.942, 2.123]
    assert published["speed-up of lambda -1"] == 3.73
    assert published["speed-up of lambda -2"] == 2.34
    assert published["step, Llama-3.1-8B, 16 H100"] == 97.7
    assert published["update_actor of a step"] == 773.6
    assert all(check.source and check.assumed for check in FOUND.values())


@pytest.mark.parametrize("name", [name for name in FOUND if name.startswith("step, ")])
def test_tuned_single_turn_steps_are_met_within_a_half(name: str) -> None:
    assert 0.66 < FOUND[name].ratio < 1.5


@pytest.mark.parametrize("name", ["gen of a step", "old_log_prob of a step", "update_actor of a step"])
def test_a_step_of_small_micro_batches_takes_up_to_four_times_as_long(name: str) -> None:
    assert 0.24 < FOUND[name].ratio < 1.0


def test_the_order_of_the_papers_is_kept() -> None:
    ratios = [FOUND[name].predicted for name in ("self-teacher pass", "K = 1", "K = 2", "K = 3")]
    assert ratios == sorted(ratios)
    assert FOUND["self-teacher pass"].ratio == pytest.approx(1.0, abs=0.05)
    assert FOUND["K = 1"].ratio == pytest.approx(1.0, abs=0.1)
    stops = [
        FOUND[f"speed-up of {name}"].predicted
        for name in ("lambda -2", "lambda -1", "lambda -1 without the buffer")
    ]
    assert stops == sorted(stops)
    assert all(value > 1 for value in stops)


def test_worse_kernels_make_steps_longer() -> None:
    slow = {check.what: check for check in checks(scaled(Efficiency(), 0.5))}
    for name in ("step, Llama-3.1-8B, 16 H100", "update_actor of a step"):
        assert 1.2 < slow[name].predicted / FOUND[name].predicted <= 2.05
