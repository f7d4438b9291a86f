"""Every recipe that needs no data from outside, made small: it trains, and a resumed run is bitwise the same."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from turnpoint.cli.recipes import list_recipes
from turnpoint.records import EpisodeWriter
from turnpoint.testing.episodes import play_oracle
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import RunConfig, load_run_config
from turnpoint.training.view import View

pytest.importorskip("torch")

GAMES = ("household", "minesweeper", "sokoban", "webshop", "search_qa")
UNTRAINED = ("react", "reflexion", "full_retry")
ELSEWHERE = ("smollm2",)
"""Trained in an environment of their own: see tests/real_smollm."""
NEEDS_TEACHER = ("opd", "fast_opd", "tcod_f2b", "tcod_b2f", "turnopd", "stride", "sod")
TINY = [
    "policy.layers=1", "policy.width=32", "policy.heads=2", "policy.kv_heads=1", "policy.ffn=48",
    "policy.warm_start.demonstrations=24", "train.tasks_per_step=2", "train.checkpoint_every=1",
    "eval.before=false", "eval.every=0", "eval.tasks=1", "eval.attempts=1", "loggers=[]", "env.max_turns=7",
    "rollout.max_response_tokens=8",
]  # fmt: skip
SMALL_WORLD = {
    "webshop": ["env.generator.products=16", "env.valid_tasks=4", "rollout.max_response_tokens=16"],
    "search_qa": ["env.world.people=6", "env.max_turns=3"],
}
RECIPES = [
    path
    for path in list_recipes()
    if path.stem == "quickstart"
    or (path.stem.endswith(GAMES) and not path.stem.startswith((*UNTRAINED, *ELSEWHERE)))
]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def parts(recipe: Path) -> tuple[str, str]:
    """Method and environment that a recipe is named after."""
    game = next((game for game in GAMES if recipe.stem.endswith(game)), "household")
    return recipe.stem.removesuffix(f"_{game}"), game


def load(recipe: Path, cache: Path, *overrides: str) -> RunConfig:
    small = SMALL_WORLD.get(parts(recipe)[1], ["env.train_tasks=16", "env.valid_tasks=4"])
    return load_run_config(recipe, [*TINY, *small, f"cache={cache}", *overrides])


def train(config: RunConfig, folder: Path, *, resume: bool = False) -> None:
    trainer = Trainer(build_run(config, folder), View())
    if resume:
        trainer.resume()
    asyncio.run(trainer.train())


@pytest.fixture(scope="session")
def teacher(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The teacher of an environment: trained for one step."""

    @functools.cache
    def trained(game: str) -> Path:
        name = "teacher_household" if game == "household" else f"grpo_{game}"
        (recipe,) = (path for path in RECIPES if path.stem == name)
        folder = tmp_path_factory.mktemp("teacher")
        train(load(recipe, cache, "train.steps=1"), folder)
        return folder / "checkpoints" / "step_000001" / "policy"

    return trained


@pytest.fixture(scope="session")
def recorded(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (recipe,) = (path for path in RECIPES if path.stem == "grpo_household")
    suite = load(recipe, cache).env.build()
    path = tmp_path_factory.mktemp("recorded") / "episodes.jsonl"
    with EpisodeWriter(path) as writer:
        for number in range(4):
            writer.write(play_oracle(suite.make(), suite.tasks("train")[number]))
    return path


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains_and_resumes_bitwise(
    recipe: Path, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    method, game = parts(recipe)
    own = ["method.group=4"] if method not in ("opsd", "stride") else []
    if method in NEEDS_TEACHER:
        own = [f"scoring.model={request.getfixturevalue('teacher')(game)}"]
    if method == "pivotrl":
        own.append(f"method.episodes={request.getfixturevalue('recorded')}")
    train(load(recipe, cache, *own, "train.steps=2"), tmp_path / "whole")
    train(load(recipe, cache, *own, "train.steps=1"), tmp_path / "half")
    train(load(recipe, cache, *own, "train.steps=2"), tmp_path / "half", resume=True)
    one, two = (tmp_path / name / "checkpoints" / "step_000002" for name in ("whole", "half"))
    assert weights(one) == weights(two)
    first, second = (tmp_path / "whole" / "checkpoints" / f"step_{n:06d}" for n in (1, 2))
    steps = [r for r in read_metrics(tmp_path / "whole" / "metrics.jsonl") if r["kind"] == "train"]
    if method != "pivotrl":  # answers of so weak an agent are all wrong, so there is no turn to learn from
        assert sum(step["rows"] for step in steps) > 0
        assert steps[1]["update/grad_norm"] == 0 or weights(first) != weights(second)


def weights(checkpoint: Path) -> bytes:
    return (checkpoint / "policy" / "model.safetensors").read_bytes()
