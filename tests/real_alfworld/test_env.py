from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.alfworld.settings import AlfworldSettings
from turnpoint.envs.alfworld.suite import AlfworldSuite
from turnpoint.envs.child import Child, ChildHung
from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.index import load_game
from turnpoint.envs.household.problem import GameFileError
from turnpoint.records import StopReason
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy
from turnpoint.testing.tiny_model import write_tiny_model
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytestmark = pytest.mark.alfworld
RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture(scope="module")
def suite(games: Path) -> AlfworldSuite:
    return AlfworldSettings(games=str(games), max_turns=6, processes=1).build()


def test_the_contract_is_kept(games: Path) -> None:
    """Every proof with all its 500 resets, by the command; of three tasks two stay loaded."""
    command = [sys.executable, "-m", "turnpoint.cli", "envs", "check", "alfworld", f"games={games}"]
    settings = ["games_loaded=2", "processes=1", "--tasks", "3"]
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"ok   memory: .* over 500 resets, [1-9]\d* of \d+ steps accepted", done.stdout)


def test_walkthroughs_win(suite: AlfworldSuite) -> None:
    for task in suite.tasks("valid")[:2]:
        env = suite.make()
        env.reset(task)
        document = json.loads((suite.games.root / str(task.data["path"])).read_text())
        steps = [env.step(command) for command in document["walkthrough"]]
        assert (steps[-1].done, steps[-1].success, steps[-1].reward) == (True, True, 10.0)
        assert not any(step.done for step in steps[:-1])
        assert not env.step("look").effective


def test_a_fork_outlives_the_engine(suite: AlfworldSuite) -> None:
    env, task = suite.make(), suite.tasks("train")[1]
    observation = env.reset(task)
    for _ in range(4):
        observation = env.step(
            next(a for a in observation.admissible or () if a.startswith("go to"))
        ).observation
    kept = env.snapshot()
    expected = [env.step("inventory"), env.step("look")]
    process = suite.engines[0]._process
    assert process is not None
    process.kill()
    process.wait()
    other = suite.make()
    assert other.restore(kept) == observation
    assert [other.step("inventory"), other.step("look")] == expected
    other.restore(kept._replace(key="0" * 16))
    with pytest.raises(EnvError, match="did not come back"):
        other.step("look")


def test_an_engine_that_hangs_ends_its_episodes_and_nothing_else(games: Path) -> None:
    hung = AlfworldSettings(games=str(games), max_turns=2, processes=1, engine_seconds=0.001).build()
    with pytest.raises(ChildHung, match="took longer than"):
        hung.make().reset(hung.tasks("train")[0])
    rollouts, _ = make_rollouts(hung, ScriptedPolicy(random_agent()))

    async def play() -> list[StopReason | None]:
        lost = await rollouts.play(hung.tasks("train")[0], 0)
        hung.engines[0] = Child("turnpoint.envs.alfworld.engine:Service", 120.0)
        rollouts.envs._idle.clear()
        hung._next = iter(hung.engines * 8)
        found = await rollouts.play(hung.tasks("train")[0], 1)
        await rollouts.close()
        return [lost.stop, found.stop]

    assert asyncio.run(play()) == [StopReason.ENV_ERROR, StopReason.MAX_TURNS]


def test_the_older_grammar_plays_here_and_is_refused_by_name_elsewhere(games: Path, tmp_path: Path) -> None:
    source = next(iter(sorted((games / "train").glob("pick_and_place_simple-*/*/game.tw-pddl"))))
    path = tmp_path / "train" / "pick_and_place_simple-Mug-None-Desk-1" / "trial" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    text = source.read_text().replace("move {o} to {r}", "put {o} in/on {r}")
    path.write_text(text)
    old = AlfworldSettings(games=str(tmp_path), valid_split="train", processes=1).build()
    (task,) = old.tasks("train")
    assert task.data["grammar"] == "put"
    env = old.make()
    env.reset(task)
    walkthrough = json.loads(text)["walkthrough"]
    said = [command.replace("move ", "put ", 1).replace(" to ", " in/on ") if command.startswith("move ") else command
            for command in walkthrough]  # fmt: skip
    steps = [env.step(command) for command in said]
    assert said[-1].startswith("put ")
    assert steps[-1].success
    with pytest.raises(GameFileError, match=r"older than ALFWorld 0\.4"):
        load_game(path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvDataError, match="does not exist"):
        AlfworldSettings(games=str(tmp_path / "none")).build()


def test_the_household_environment_plays_the_same_game(suite: AlfworldSuite) -> None:
    task = suite.tasks("train")[0]
    engine = Engine(load_game(suite.games.root / str(task.data["path"])))
    observation = suite.make().reset(task)
    assert [c for c in engine.commands(engine.game.start) if c != "help"] == list(
        observation.admissible or ()
    )


@pytest.mark.parametrize(
    "recipe", ["grpo_alfworld", "pivotopd_alfworld", "pivoarl_alfworld", "stride_alfworld"]
)
def test_a_training_step(games: Path, tmp_path: Path, recipe: str) -> None:
    model = write_tiny_model(tmp_path / "model", context=16384)
    teacher = write_tiny_model(tmp_path / "teacher", context=16384, seed=1)
    config = load_run_config(
        RECIPES / f"{recipe}.yaml",
        [f"policy.model={model}", f"env.games={games}", "env.max_turns=2", "method.group=2", "train.steps=1",
         "train.tasks_per_step=1", "eval.before=false", "eval.every=0", "eval.tasks=1", "eval.attempts=1",
         "rollout.max_response_tokens=6", "env.processes=1", "loggers=[]", f"cache={tmp_path}"]
        + (["method.reflection_tokens=6"] if recipe.startswith("pivoarl") else [])
        + ([f"scoring.model={teacher}"] if recipe.startswith("stride") else []),
    )  # fmt: skip
    asyncio.run(Trainer(build_run(config, tmp_path / "run"), View()).train())
    (step,) = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"]
    assert step["episodes"] >= 2
    assert step["rows"] > 0
