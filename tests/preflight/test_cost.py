"""What a step will cost: whatever a teacher's cache holds already, and each teacher against its own budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnpoint.preflight import Doubt
from turnpoint.preflight.bench import Bench, TinyStep
from turnpoint.preflight.cost import short_budgets, table
from turnpoint.testing import FakeEndpoint

MakeBench = Callable[..., Bench]


def test_a_second_check_tells_what_the_first_told(
    bench_of: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FakeEndpoint(["no turn went wrong"]) as endpoint:
        teacher = {
            "kind": "http", "base_url": endpoint.url, "model": "fake-model", "cache": str(tmp_path / "cache"),
            "price": {"prompt": 1.0, "completion": 2.0},
        }  # fmt: skip

        def costs(**settings: Any) -> tuple[Bench, dict[str, float], str]:
            bench = bench_of(scoring={}, teacher=teacher | settings, method={"kind": "pivotopd", "group": 2})
            told = asyncio.run(table(bench))
            return bench, {name: row["tiny"] for name, row in bench.cost.items() if "teacher " in name}, told

        bench, first, told = costs()
        asked = len(endpoint.requests)
        assert asked > 0
        assert first["teacher requests"] == first["teacher reports"] == 4
        assert first["teacher cost"] > 0
        bench, second, told = costs()
        assert len(endpoint.requests) == asked, "nothing was bought"
        assert bench.need_step().teachers["teacher/prompt_tokens"] == 0
        assert second == first
        assert "the cache had are counted as bought" in told
        with pytest.raises(Doubt, match=r"teacher\.budget\.cost lasts about 0 of 10 steps"):
            costs(budget={"cost": first["teacher cost"]})


def test_each_teacher_is_held_against_its_own_budget(bench_of: MakeBench) -> None:
    def http(**budget: int) -> dict[str, Any]:
        return {"kind": "http", "base_url": "http://127.0.0.1:1/v1", "model": "m", "budget": budget}

    bench = bench_of(step=False, scoring={"math": http(tokens=100), "default": http(prompt_tokens=100)})

    def short(counted: dict[str, float]) -> list[str]:
        return short_budgets(bench, TinyStep([], [], {}, 0, counted, 0.0, 0.0), scale=2.0)

    math = {"scoring/math/prompt_tokens": 6.0, "scoring/math/completion_tokens": 1.0}
    assert short(math) == ["scoring.math.budget.tokens lasts about 7 of 10 steps"]
    others = {"scoring/prompt_tokens": 10.0, "scoring/completion_tokens": 50.0}
    assert short(others) == ["scoring.default.budget.prompt_tokens lasts about 5 of 10 steps"]
    assert short(math | others) == short(math) + short(others)
    assert short({"scoring/math/prompt_tokens": 5.0, "scoring/prompt_tokens": 5.0}) == []
