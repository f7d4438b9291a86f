"""The package's surface: exported names, light imports."""

from __future__ import annotations

import inspect
import subprocess
import sys

import turnpoint.credit as credit


def test_exported_names_exist_and_are_documented() -> None:
    assert sorted(credit.__all__) == list(credit.__all__)
    for name in credit.__all__:
        assert inspect.getdoc(getattr(credit, name)), name


def test_stable_signatures() -> None:
    def parameters(name: str) -> list[str]:
        return list(inspect.signature(getattr(credit, name)).parameters)

    assert parameters("discounted_returns") == ["rewards", "gamma"]
    assert parameters("pivot_isolated_returns") == [
        *("rewards", "pivots", "gamma_step", "gamma_traj"),
        *("isolation", "successor", "carry"),
    ]
    assert parameters("reflection_returns") == ["rewards", "pivots", "success", "gamma_step", "valid"]
    assert parameters("group_advantages")[:3] == ["values", "groups", "normalise"]
    assert parameters("step_advantages")[:3] == ["returns", "anchors", "normalise"]
    assert parameters("early_stop_turn") == ["turn_scores", "threshold", "reused"]
    assert parameters("restart_turn")[:2] == ["turn_scores", "floor"]
    assert parameters("distillation_advantages") == ["hinted", "plain", "weight", "clip"]


def test_importing_credit_loads_no_training_stack() -> None:
    script = "import sys, turnpoint.credit; print({'torch', 'transformers', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
