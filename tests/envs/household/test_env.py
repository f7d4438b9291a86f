from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from turnpoint.envs.household.env import HouseholdEnv
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.settings import GeneratorSettings, HouseholdSettings
from turnpoint.envs.household.suite import HouseholdSuite
from turnpoint.envs.household.writing import write_game
from turnpoint.envs.protocol import Env, EnvDataError, EnvError
from turnpoint.envs.registry import env_registry
from turnpoint.records import Task
from turnpoint.testing import play_actions, play_oracle

SMALL = {"receptacles": (4, 6), "objects": (4, 6)}


def suite(**changes: Any) -> HouseholdSuite:
    settings = {"generator": SMALL, "train_tasks": 24, "valid_tasks": 12, **changes}
    return env_registry.parse({"kind": "household", **settings}).build()  # type: ignore[return-value]


def folder(root: Path, split: str, seeds: range) -> None:
    generator = Generator(GeneratorSettings(**SMALL))
    for seed in seeds:
        path = root / split / f"task-{seed:02d}" / "trial" / "game.tw-pddl"
        path.parent.mkdir(parents=True)
        write_game(generator.game(seed).problem, path)


def test_the_oracle_solves_every_task() -> None:
    made = suite()
    env = made.make()
    assert isinstance(env, Env)
    for split in ("train", "valid"):
        for task in made.tasks(split):
            episode = play_oracle(env, task)
            assert episode.success
            assert episode.total_reward == 10.0
            assert [turn.reward for turn in episode.turns[:-1]] == [0.0] * (len(episode.turns) - 1)
            assert play_oracle(env, task, knowledge="observed").success


def test_distance_counts_the_oracles_turns_down() -> None:
    env = suite().make()
    for task in suite().tasks("valid"):
        env.reset(task)
        left = env.distance()
        while left:
            env.step(env.best_actions()[-1])
            assert env.distance() == left - 1
            left -= 1
        assert env.best_actions() == env.best_actions("observed") == []


def test_forks_at_every_turn_go_on_alike() -> None:
    made = suite(state_reminder=True)
    env, other = made.make(), made.make()
    for task in made.tasks("valid")[:6]:
        rng = random.Random(task.id)
        actions = []
        observation = env.reset(task)
        for _ in range(12):
            assert observation.admissible is not None
            actions.append(rng.choice([*observation.admissible, "nonsense", "help"]))
            observation = env.step(actions[-1]).observation
        episode = play_actions(env, task, actions)
        played = len(episode.turns)
        for index in range(played):
            assert other.restore(episode.turns[index].snapshot) == episode.turns[index].observation
            for later in range(index, played):
                step = other.step(actions[later])
                assert step.observation == episode.observation_at(later + 1)
            assert other.snapshot() == episode.final_snapshot


def test_help_is_understood_and_not_offered() -> None:
    env = suite().make()
    observation = env.reset(suite().tasks("train")[0])
    assert observation.admissible is not None
    assert "help" not in observation.admissible
    step = env.step("help")
    assert step.effective
    assert step.observation.text.startswith("Available commands:")


def test_an_unknown_command_is_answered_and_changes_nothing() -> None:
    env = suite().make()
    before = env.reset(suite().tasks("train")[0])
    step = env.step("dance")
    assert (step.effective, step.reward, step.done) == (False, 0.0, False)
    assert step.observation.text == "Nothing happens."
    assert step.observation.state_key == before.state_key
    assert step.observation.admissible == before.admissible


def test_a_solved_episode_stays_solved() -> None:
    env = suite().make()
    task = suite().tasks("train")[0]
    play_oracle(env, task)
    step = env.step("look")
    assert (step.done, step.success, step.reward, step.effective) == (True, True, 0.0, False)
    assert step.observation.admissible == ()


def test_state_keys_tell_states_apart() -> None:
    env = suite().make()
    start = env.reset(suite().tasks("train")[0])
    assert start.admissible is not None
    go = next(action for action in start.admissible if action.startswith("go"))
    there = env.step(go).observation
    assert there.state_key != start.state_key
    assert env.step("look").observation.state_key == there.state_key
    assert env.reset(suite().tasks("train")[0]).state_key == start.state_key


def test_reminder_and_short_start() -> None:
    task = suite().tasks("train")[0]
    plain = suite().make().reset(task).text
    assert plain.startswith("-= Welcome")
    assert plain.endswith(f"Your task is to: {task.instruction}")
    env = suite(state_reminder=True, short_start=True).make()
    text = env.reset(task).text
    assert text.startswith("You are in the middle of a room.")
    assert text.endswith(f"\nTask: {task.instruction} You hold: nothing.")
    while not any(action.startswith("take") for action in env.best_actions()):
        env.step(env.best_actions()[0])
    take = next(action for action in env.best_actions() if action.startswith("take"))
    held = take.removeprefix("take ").split(" from ")[0]
    assert env.step(take).observation.text.endswith(f"\nTask: {task.instruction} You hold: {held}.")


def test_tasks_are_numbered_typed_and_disjoint() -> None:
    made = suite(generator=SMALL | {"temptations": 0.5})
    train, valid = made.tasks("train"), made.tasks("valid")
    assert (len(train), len(valid)) == (24, 12)
    assert [task.id for task in train[:2]] == ["train-00000", "train-00001"]
    assert len({task.type for task in train}) == 6
    assert not {task.seed for task in train} & {task.seed for task in valid}
    assert {task.data["tempting"] for task in train} == {True, False}
    assert train[-1] == train[23]
    with pytest.raises(IndexError):
        train[24]
    with pytest.raises(EnvDataError, match="no split 'test'"):
        made.tasks("test")


def test_no_game_of_a_tiny_world_is_in_both_splits() -> None:
    tiny = {"layout": "fixed", "receptacles": (4, 4), "objects": (3, 3), "object_types": 5}
    made = suite(generator=tiny, train_tasks=400, valid_tasks=100)
    games = {
        split: [made.source.load(task).problem for task in made.tasks(split)] for split in ("train", "valid")
    }
    assert len(set(games["train"])) < 400  # small enough to repeat itself
    assert not set(games["train"]) & set(games["valid"])


def test_tasks_survive_json_and_refuse_other_settings() -> None:
    made = suite()
    task = made.tasks("train")[5]
    copy = Task(**json.loads(json.dumps({name: getattr(task, name) for name in Task.__slots__})))
    assert made.make().reset(copy) == made.make().reset(task)
    other = suite(generator=SMALL | {"layout_seed": 1})
    with pytest.raises(EnvError, match="other settings"):
        other.make().reset(task)
    assert other.header()["sha256"] != made.header()["sha256"]
    with pytest.raises(EnvError, match="cannot be played"):
        made.make().reset(Task(id="x", env="household"))


def test_misuse_is_an_env_error() -> None:
    env = suite().make()
    for call in (env.snapshot, env.distance, env.best_actions, lambda: env.step("look")):
        with pytest.raises(EnvError, match="has not been reset"):
            call()
    with pytest.raises(EnvError, match="not a snapshot"):
        env.restore("yesterday")
    env.reset(suite().tasks("train")[0])
    env.close()
    env.close()
    with pytest.raises(EnvError, match="has not been reset"):
        env.snapshot()


def test_a_folder_of_games(tmp_path: Path) -> None:
    folder(tmp_path, "train", range(4))
    folder(tmp_path, "valid_seen", range(4, 6))
    made = HouseholdSettings(games=str(tmp_path)).build()
    assert [task.id for task in made.tasks("valid")] == [
        "valid_seen/task-04/trial",
        "valid_seen/task-05/trial",
    ]
    env = made.make()
    for task in (*made.tasks("train"), *made.tasks("valid")):
        episode = play_oracle(env, task)
        assert episode.success
        assert task.type in GeneratorSettings().task_types
        assert episode.turns[0].observation.text.endswith(task.instruction)
    header = made.header()
    assert header["tasks"] == {"train": 4, "valid": 2}
    assert header["unusable"] == {}
    assert len(header["sha256"]["train"]) == 64
    words = " ".join(made.vocabulary_texts())
    assert made.tasks("train")[0].instruction.removesuffix(".") in words


def test_bad_files_are_reported_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder(tmp_path, "train", range(3))
    broken = tmp_path / "train" / "task-01" / "trial" / "game.tw-pddl"
    broken.write_bytes(broken.read_bytes()[:300])
    with caplog.at_level(logging.WARNING):
        made = HouseholdSettings(games=str(tmp_path)).build()
    assert len(made.tasks("train")) == 2
    assert made.header()["unusable"].keys() == {"train/task-01/trial/game.tw-pddl"}
    assert str(broken) in caplog.text
    with pytest.raises(EnvDataError, match="valid_seen"):
        made.tasks("valid")


def test_folders_without_usable_games_are_errors(tmp_path: Path) -> None:
    with pytest.raises(EnvDataError, match="does not exist"):
        HouseholdSettings(games=str(tmp_path / "nowhere")).build()
    (tmp_path / "other").mkdir()
    with pytest.raises(EnvDataError, match="not inside"):
        HouseholdSettings(games=str(tmp_path / "other"), train_split="../train").build()
    with pytest.raises(EnvDataError, match=r"train or valid_seen.*subfolders are: other"):
        HouseholdSettings(games=str(tmp_path)).build()
    bad = tmp_path / "train" / "a" / "game.tw-pddl"
    bad.parent.mkdir(parents=True)
    bad.write_text("junk")
    with pytest.raises(EnvDataError, match="none of the 1 files"):
        HouseholdSettings(games=str(tmp_path)).build()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, "train", range(2))
    made = HouseholdSettings(games=str(tmp_path)).build()
    task = made.tasks("train")[0]
    path = tmp_path / str(task.data["path"])
    path.write_bytes((tmp_path / str(made.tasks("train")[1].data["path"])).read_bytes())
    with pytest.raises(EnvError, match="not the file"):
        made.make().reset(task)
    path.unlink()
    with pytest.raises(EnvError, match="cannot be read"):
        made.make().reset(task)
    outside = Task(id="x", env="household", data={"path": "../secret", "sha256": ""})
    with pytest.raises(EnvError, match="outside"):
        made.make().reset(outside)


def test_generator_settings_beside_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="would be ignored"):
        HouseholdSettings(games=str(tmp_path), generator=GeneratorSettings(**SMALL))


def test_impossible_generators_fail_before_anything_starts() -> None:
    tight = {"receptacles": (2, 2), "objects": (2, 2), "object_types": 1, "layout": "fixed"}
    with pytest.raises(EnvDataError, match="no winnable game"):
        suite(generator=tight)


def test_games_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnpoint.envs.household.suite._GAMES_KEPT", 3)
    made = suite()
    env: HouseholdEnv = made.make()
    for task in made.tasks("train"):
        env.reset(task)
        assert len(made._plays) <= 3
