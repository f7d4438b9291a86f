"""The fit of the cost model gives back coefficients that measurements were made from."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")


from turnpoint.planning import Cluster, Efficiency, Gpu
from turnpoint.planning.shapes import ModelShape
from turnpoint.planning.step import decode_step

SHAPE = ModelShape("made up", 2, 4, 2, 32, 4e5, 4e5)


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])


def made_up(scoring: float, update: float, decoding: float, fixed: float) -> dict[str, Any]:
    """Measurements of a machine with these operations a second and this fixed part of a decoding step."""
    points: dict[str, list[dict[str, float]]] = {"decoding": [], "scoring": [], "update": []}
    for batch in (1, 8, 32):
        flops = SHAPE.forward_flops(batch, 208)
        points["decoding"].append({"seconds": fixed + flops / decoding, "flops": flops})
    for tokens in (1000, 4000):
        flops = SHAPE.forward_flops(tokens, 100)
        points["scoring"].append({"seconds": flops / scoring, "flops": flops})
        points["update"].append({"seconds": 3 * flops / update, "flops": 3 * flops})
    return {"points": points, "driver_call": 0.001, "env_step": 0.0, "env_reset": 0.0}


def test_the_fit_finds_what_the_measurements_were_made_from() -> None:
    profile = import_module("benchmarks.cost_model").fit(
        made_up(scoring=4e10, update=2e10, decoding=1e10, fixed=0.002)
    )
    share = profile["efficiency"]
    assert profile["gpu"]["flops"] == pytest.approx(4e10)
    assert (share["scoring_mfu"], share["train_mfu"]) == (pytest.approx(1.0), pytest.approx(0.5))
    assert (share["decode_mfu"], share["decode_seconds"]) == (pytest.approx(0.25), pytest.approx(0.002))
    assert share["driver_call_seconds"] == 0.001
    for ratios in profile["fit_over_measured"].values():
        assert ratios == pytest.approx([1.0] * len(ratios), abs=1e-3)
    cluster = Cluster(Gpu(**profile["gpu"]), 1, Efficiency.model_validate(share))
    assert decode_step(SHAPE, cluster, 8, 208) == pytest.approx(
        0.002 + SHAPE.forward_flops(8, 208) / 1e10, rel=1e-3
    )


def test_a_built_model_has_its_shape() -> None:
    rollout = import_module("benchmarks.rollout")
    model = rollout.build_model(rollout.Shape(1, 1, 100, 4, 64), layers=2, width=64, seed=0)
    shape = import_module("benchmarks.cost_model").shape_of(model)
    assert (shape.layers, shape.head_dim) == (2, 32)
    assert shape.parameters == shape.active > 64 * 64
