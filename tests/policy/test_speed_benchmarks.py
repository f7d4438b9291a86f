"""The speed benchmarks run and compare like with like (sizes too small for figures)."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--episodes", "3", "--turns", "3", "--width", "32", "--vocabulary", "64", "--rounds", "1"]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("benchmarks.rollout").main(SMALL)
    result = json.loads(capsys.readouterr().out)
    assert result["ratio_cpu"] > 0
    # Both rounds sample every token, and no token of an episode is read twice.
    assert result["work"]["sampled"] == 3 * 3 * 6
    assert result["work"]["prefilled"] < 3 * 3 * (30 + 6)


def test_update(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("benchmarks.update").main(SMALL)
    result = json.loads(capsys.readouterr().out)
    assert result["gradient_relative_difference"] < 1e-5
    assert result["merged"]["tokens"] == result["row per turn"]["tokens"] == 3 * 3 * 6
    assert result["merged"]["sequences"] == 3
    assert result["ratio_tokens"] > 1.5
    assert result["merged"]["loss"] == pytest.approx(result["row per turn"]["loss"], rel=1e-5)


def test_scoring(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("benchmarks.scoring").main([*SMALL, "--hinted", "2"])
    result = json.loads(capsys.readouterr().out)
    sides = [result[name] for name in ("trees, cached", "trees", "chains", "each alone")]
    assert all(side["max_difference"] < 1e-5 for side in sides)
    tokens = [side["tokens_processed"] for side in sides]
    assert tokens == sorted(tokens)
    assert 2 * tokens[0] < tokens[-1]
