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
    import_module("benchmarks.update").main([*SMALL, "--branches", "2"])
    result = json.loads(capsys.readouterr().out)
    trees, chains, single = (result[name] for name in ("trees", "chains", "row per turn"))
    for side in (trees, chains, single):
        assert side["gradient_relative_difference"] < 1e-5
        assert side["tokens"] == 3 * (3 + 2) * 6
        assert side["loss"] == pytest.approx(single["loss"], rel=1e-5)
    assert (chains["sequences"], single["sequences"]) == (9, 15)
    assert trees["ratio_tokens"] > 1.3 * chains["ratio_tokens"] > 1.5


def test_scoring(capsys: pytest.CaptureFixture[str]) -> None:
    import_module("benchmarks.scoring").main([*SMALL, "--hinted", "2"])
    result = json.loads(capsys.readouterr().out)
    sides = [result[name] for name in ("trees, cached", "trees", "chains", "each alone")]
    assert all(side["max_difference"] < 1e-5 for side in sides)
    tokens = [side["tokens_processed"] for side in sides]
    assert tokens == sorted(tokens)
    assert 2 * tokens[0] < tokens[-1]
