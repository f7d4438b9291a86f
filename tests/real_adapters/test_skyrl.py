"""skyrl-gym itself: its environments by name, one of the user's, and ours as one of its kind."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import skyrl_gym
from omegaconf import DictConfig

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.adapters.game import Nonsense
from turnpoint.envs.adapters.skyrl.settings import SkyrlGymSettings
from turnpoint.envs.adapters.skyrl.suite import SkySuite
from turnpoint.envs.check import check_env
from turnpoint.envs.exports import skyrl as export

pytestmark = pytest.mark.adapters

OWN = '''
import numpy
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput


class Multiply(BaseTextEnv):
    """The product of two numbers, with three tries."""

    def __init__(self, env_config=None, extras=None):
        super().__init__()
        self.answer = extras["reward_spec"]["ground_truth"]
        self.max_turns = 3

    def step(self, action):
        self.turns += 1
        if action == "break":
            return {"observations": [{"role": "user", "content": 7}], "reward": 0.0, "done": False}
        if action == "void":
            return None
        right = action.strip() == self.answer
        done = right or self.turns >= self.max_turns
        said = [] if done else [{"role": "assistant", "content": action}, {"role": "user", "content": "No. Again."}]
        reward = numpy.float32(1.0 if right else -0.1)
        return BaseTextEnvStepOutput(observations=said, reward=reward, done=done, metadata={})
'''


def make(**settings: Any) -> SkySuite:
    return SkyrlGymSettings.model_validate({"processes": 0, **settings}).build()


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}], **more}


@pytest.mark.parametrize("identifier", ["gsm8k", "gsm8k_multi_turn"])
def test_the_contract_is_kept(identifier: str) -> None:
    whole = identifier == "gsm8k"
    report = check_env(make(id=identifier, processes=int(whole)), tasks=2, quick=not whole)
    assert report.ok, report.failures


def test_gsm8k_scores_as_the_library_does() -> None:
    suite = make(train_tasks=5, valid_tasks=5)
    env = suite.make()
    for task in [*suite.tasks("train"), *suite.tasks("valid")]:
        truth = task.data["row"]["reward_spec"]["ground_truth"]
        for reply, right in ((f"so #### {truth}", True), ("#### 0", False), (truth, False)):
            env.reset(task)
            step = env.step(reply)
            assert (step.reward, step.done, step.success) == (float(right), True, right)


def test_rewards_of_turns_add_up() -> None:
    suite = make(id="gsm8k_multi_turn", max_turns=4)
    env, task = suite.make(), suite.tasks("train")[0]
    env.reset(task)
    first = env.step("#### 1")
    assert (first.reward, first.done) == (0.2 / 4, False)
    assert "Please provide" in first.observation.text
    assert env.step(f"#### {task.data['row']['reward_spec']['ground_truth']}").success is True


def test_aime_reads_the_users_file(tmp_path: Path) -> None:
    rows = [ask("What is 6 times 7?", reward_model={"ground_truth": "42"})]
    path = write(tmp_path / "aime.jsonl", rows)
    suite = make(id="aime", train=path, valid=path)
    env = suite.make()
    assert env.reset(suite.tasks("train")[0]).text == "Be brief.\n\nWhat is 6 times 7?"
    assert env.step("Answer: 42").success is True
    env.reset(suite.tasks("train")[0])
    wrong = env.step("Answer: 41")
    assert (wrong.reward, wrong.success) == (-1.0, False)
    assert len(suite.header()["sha256"]["train"]) == 64


def test_text2sql_runs_queries_over_several_turns(tmp_path: Path) -> None:
    folder = tmp_path / "spider" / "database" / "shop"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("create table goods (name text, price integer)")
        database.execute("insert into goods values ('lamp', 3), ('bed', 9)")
    row = ask(
        "Which is dear?",
        db_id="shop",
        data="spider",
        reward_spec={"ground_truth": "select name from goods where price > 5"},
        max_turns=3,
    )
    path = write(tmp_path / "sql.jsonl", [row])
    suite = make(id="text2sql", train=path, valid=path, options={"db_path": str(tmp_path)})
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    shown = env.step("<think>look</think><sql>select * from goods</sql>")
    assert not shown.done
    assert "lamp" in shown.observation.text
    last = env.step("<think>so</think><solution>select name from goods where price > 5</solution>")
    assert last.done
    assert last.success is True, last


def test_environments_of_the_user_and_their_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_texts.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    path = write(tmp_path / "rows.jsonl", [ask("3 times 4?", reward_spec={"ground_truth": "12"})])
    suite = make(id="own_texts:Multiply", train=path, valid=path)
    env, task = suite.make(), suite.tasks("train")[0]
    env.reset(task)
    assert env.step("11").observation.text == "No. Again."
    won = env.step("12")
    assert (won.reward, won.done, won.success) == (1.0, True, False), "1.0 - 0.1 is below success_reward"
    env.reset(task)
    assert env.step("12").success is True
    for word in ("break", "void"):
        env.reset(task)
        with pytest.raises(Nonsense):
            env.step(word)


@pytest.mark.parametrize(
    ("settings", "rows", "says"),
    [
        ({"id": "chess"}, [ask("x")], "skyrl-gym does not have; it has aime"),
        ({"id": "aime"}, [ask("x")], "reward_model field is required"),
        ({"id": "aime"}, [{"question": "x"}], "line 1 has no 'prompt'"),
        ({"id": "aime"}, [], "holds no row"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, settings: dict[str, Any], rows: list[dict[str, Any]], says: str
) -> None:
    path = write(tmp_path / "rows.jsonl", rows)
    with pytest.raises(EnvDataError, match=says):
        make(train=path, valid=path, **settings)


def test_tasks_of_other_kinds_are_refused() -> None:
    from turnpoint.records import Task

    with pytest.raises(EnvError, match="belongs to environment 'math'"):
        make().make().reset(Task("x", "math"))


def test_ours_as_an_environment_of_skyrl() -> None:
    export.register_environment()
    export.register_environment()
    section = {"kind": "sokoban", "train_tasks": 4, "valid_tasks": 2}
    rows = list(export.rows(section, "valid"))
    assert len(rows) == 2
    extras = {key: value for key, value in json.loads(json.dumps(rows[0])).items() if key != "prompt"}
    env = skyrl_gym.make("turnpoint", env_config=DictConfig({}), extras=extras)
    conversation, _ = env.init(rows[0]["prompt"])
    assert [message["role"] for message in conversation] == ["system", "user"]
    assert "Admissible actions:" in conversation[1]["content"]
    env.player.env.reset(env.player.task)
    path = []
    while env.player.env.distance():
        path.append(env.player.env.best_actions()[0])
        env.player.env.step(path[-1])
    env.init(rows[0]["prompt"])
    outputs = [env.step(action) for action in path]
    assert [output["done"] for output in outputs] == [False] * (len(path) - 1) + [True]
    assert sum(output["reward"] for output in outputs) > 0
    assert env.get_metrics() == {"turns": len(path), "success": 1.0}
    env.close()
    with pytest.raises(KeyError, match="extra_info must hold"):
        skyrl_gym.make("turnpoint", env_config=DictConfig({}), extras={})
