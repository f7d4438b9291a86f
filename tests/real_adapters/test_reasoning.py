"""reasoning-gym itself: its datasets and scorers, and answers that would like to be code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reasoning_gym

from turnpoint.envs import EnvDataError
from turnpoint.envs.adapters.reasoning import guard
from turnpoint.envs.adapters.reasoning.game import Problems
from turnpoint.envs.adapters.reasoning.settings import ReasoningGymSettings
from turnpoint.envs.adapters.reasoning.suite import ReasoningSuite
from turnpoint.envs.check import check_env

pytestmark = pytest.mark.adapters


def make(*datasets: str, **settings: Any) -> ReasoningSuite:
    few = {"train_tasks": 12, "valid_tasks": 6, "processes": 0}
    return ReasoningGymSettings.model_validate({"datasets": list(datasets), **few, **settings}).build()


def test_the_contract_is_kept_for_five_hundred_resets() -> None:
    report = check_env(make("chain_sum", "leg_counting", processes=1), tasks=3)
    assert report.ok, report.failures


def test_problems_and_scores_are_the_librarys() -> None:
    suite = make("chain_sum", "leg_counting", "spell_backward")
    env, types = suite.make(), []
    for task in suite.tasks("train"):
        data = task.data
        dataset = reasoning_gym.create_dataset(data["dataset"], seed=data["base"], size=1 << 30)
        item = dataset[data["index"]]
        assert env.reset(task).text == item["question"]
        assert env.step(item["answer"]).success is True
        env.reset(task)
        wrong = env.step("-1")
        assert wrong.reward == dataset.score_answer("-1", entry=item)
        assert wrong.success is False
        types.append(task.type)
    assert set(types) == {"chain_sum", "leg_counting", "spell_backward"}


def test_no_problem_is_in_both_splits() -> None:
    suite = make("chain_sum", options={"chain_sum": {"max_terms": 2, "max_digits": 2}}, train_tasks=200)
    env = suite.make()
    shown = {split: {env.reset(task).text for task in suite.tasks(split)} for split in ("train", "valid")}
    assert not shown["train"] & shown["valid"]


def test_answers_may_stand_in_tags() -> None:
    suite = make("chain_sum", answer="tags")
    task = suite.tasks("train")[0]
    data = task.data
    answer = reasoning_gym.create_dataset("chain_sum", seed=0, size=1 << 30)[data["index"]]["answer"]
    env = suite.make()
    env.reset(task)
    assert env.step(f"First I add.\n<answer> {answer} </answer>").success is True
    env.reset(task)
    missing = env.step(answer)
    assert (missing.effective, missing.success) == (False, False)


@pytest.mark.parametrize("name", ["spiral_matrix", "string_insertion", "binary_matrix", "n_queens"])
def test_answers_are_never_run_as_lists(name: str, tmp_path: Path) -> None:
    """Those scorers call ``eval`` on the answer."""
    mark = tmp_path / "mark"
    problems = Problems(ReasoningGymSettings(datasets=[name]))
    for index in range(3):
        data = {"dataset": name, "base": 0, "index": index}
        problems.reset(data)
        shown = problems.step(f"[__import__('pathlib').Path({str(mark)!r}).touch()]")
        assert not shown.success
        problems.reset(data)
        assert problems.step(problems.item(data)["answer"]).success
    assert not mark.exists()


def test_lists_are_still_read_as_values() -> None:
    problems = Problems(ReasoningGymSettings(datasets=["spiral_matrix"]))
    data = {"dataset": "spiral_matrix", "base": 0, "index": 1}
    problems.reset(data)
    listed = str(problems.item(data)["answer"].split())
    assert float(problems.step(listed.replace("'", "")).reward) > 0


@pytest.mark.parametrize(
    "answer",
    [
        "__import__('os').system('true')",
        "exec(chr(49))",
        "open(x)",
        "x.diff(x)",
        "(1).__class__",
        "9**9**9**9",
        "lambda: 1",
        "1" * 600,
        "exit()",
        "eval(E)",
    ],
)
def test_formulas_with_other_names_do_not_reach_the_parser(answer: str) -> None:
    dataset = reasoning_gym.create_dataset("countdown", seed=1, size=10)
    assert not guard.presentable(dataset, answer)
    problems = Problems(ReasoningGymSettings(datasets=["countdown"]))
    problems.reset({"dataset": "countdown", "base": 0, "index": 0})
    assert problems.step(answer).success is False


@pytest.mark.parametrize("name", sorted(guard.FORMULAS))
def test_right_formulas_reach_the_parser(name: str) -> None:
    problems = Problems(ReasoningGymSettings(datasets=[name]))
    right = 0
    for index in range(4):
        data = {"dataset": name, "base": 0, "index": index}
        problems.reset(data)
        item = problems.item(data)
        answer = item["metadata"].get("expression") or item["answer"]
        right += bool(problems.step(str(answer)).success)
    assert right >= (0 if name == "puzzle24" else 3)


def test_every_dataset_is_safe_or_refused() -> None:
    """No scorer of this version runs an answer in a way that the guard does not know."""
    from reasoning_gym.factory import DATASETS

    unknown = []
    for name, (dataset, _) in DATASETS.items():
        short = dataset.__module__.rpartition(".")[2]
        import inspect

        if guard._EVALUATES.search(inspect.getsource(dataset.score_answer)):
            unknown.append(short)
        assert name
    assert set(unknown) <= guard.LITERALS | guard.FORMULAS | guard._OWN_TEXT_ONLY
    assert set(unknown) >= {"countdown", "n_queens"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"datasets": ["alchemy"]}, "reasoning-gym does not have"),
        ({"datasets": ["chain_sum"], "options": {"chain_sum": {"terms": 3}}}, "which it refuses"),
        ({"datasets": ["chain_sum"], "options": {"chain_sum": {"min_terms": 9}}}, "which it refuses"),
    ],
)
def test_what_does_not_exist_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvDataError, match=says):
        make(*settings["datasets"], options=settings.get("options", {}))
