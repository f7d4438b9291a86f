from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from turnpoint.envs import EnvDataError, EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.math.checker import Checker, boxed_answer
from turnpoint.envs.math.generator import generate
from turnpoint.envs.math.settings import MathSettings
from turnpoint.envs.math.suite import MathSuite
from turnpoint.records import Task


@pytest.fixture(scope="module")
def suite() -> MathSuite:
    return MathSettings().build()


@pytest.fixture(scope="module")
def checker():
    made = Checker(1.0, 1024)
    yield made
    made.close()


def ask(suite: MathSuite, answer: str, reply: str):
    env = suite.make()
    env.reset(Task("t", "math", "?", data={"answer": answer}))
    return env.step(reply)


def test_the_contract_is_kept(suite: MathSuite) -> None:
    report = check_env(suite, tasks=2, quick=True)
    assert report.ok, report.failures


@pytest.mark.parametrize(
    ("reference", "reply", "right"),
    [
        ("204", "So it takes \\boxed{204} minutes.", True),
        ("204", "\\boxed{203} no, wait: \\boxed{204}", True),
        ("204", "\\boxed{204} no, wait: \\boxed{203}", False),
        ("204", "It is 204.", False),
        ("\\frac{1}{2}", "\\boxed{0.5}", True),
        ("\\frac{1}{2}", "\\boxed{\\dfrac{2}{4}}", True),
        ("\\frac{1}{2}", "\\fbox{1/2}", True),
        ("27", "\\boxed{x = 27}", True),
        ("27", "\\boxed{27, 28}", False),
        ("27", "\\boxed{27 \\text{ miles}}", True),
        ("-3", "\\boxed{3}", False),
        ("27", "\\boxed{27", False),
        ("27", "", False),
    ],
)
def test_answers_are_compared_as_mathematics(suite: MathSuite, reference, reply, right) -> None:
    step = ask(suite, reference, reply)
    assert (step.done, step.success, step.reward) == (True, right, float(right))


def test_without_boxed_the_last_answer_counts() -> None:
    loose = MathSettings(boxed=False).build()
    assert ask(loose, "204", "The final answer is $204$.").success
    assert not ask(loose, "204", "The final answer is $205$.").success


HOSTILE = [
    "9^{9^{9^{9^{9}}}}",
    "(((((((((((((((((((((((((((((((((",
    "\\frac{1}{0}",
    "\\sqrt[" * 60,
    "{" * 400 + "}" * 400,
    "__import__('os').system('touch /tmp/never')",
    "10000000000!!!!!",
    "\x00\ud800",
    "x" * 5000,
]


def test_hostile_answers_are_wrong_and_nothing_is_raised(checker: Checker) -> None:
    before = sum(checker.counts.values())
    for text in HOSTILE:
        assert not checker.check("27", text).correct, text
    assert checker.check("27", "27").correct
    assert sum(checker.counts.values()) == before + len(HOSTILE) + 1


ENDLESS = """
import time


class Endless:
    def compare(self, reference: str, answer: str) -> str:
        while True:
            time.sleep(1)
"""
"""Served in place of ``math-verify``: a comparison that never ends."""


def test_a_check_that_takes_too_long_is_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "endless_checker.py").write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    short = Checker(0.2, 1024)
    short.child.target = "endless_checker:Endless"
    assert short.check("27", "28").reason == "time-out"
    assert short.counts == {"time-out": 1}
    short.close()


FALTERING = """
import os
from pathlib import Path


class Faltering:
    def compare(self, reference: str, answer: str) -> str:
        asked = Path(__file__).with_name("asked")
        times = len(asked.read_text()) if asked.exists() else 0
        asked.write_text("x" * (times + 1))
        if times == 0:
            os.kill(os.getpid(), 9)
        if times == 1:
            raise MemoryError
        return "correct"
"""
"""Dies at the first comparison, runs out of memory at the second, and is right from then on."""


def test_a_failed_check_is_not_remembered_and_every_verdict_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "faltering_checker.py").write_text(FALTERING)
    monkeypatch.syspath_prepend(tmp_path)
    checker = Checker(30.0, 1024)
    checker.child.target = "faltering_checker:Faltering"
    reasons = [checker.check("27", "26+1").reason for _ in range(5)]
    checker.close()
    assert reasons == ["crash", "error", "correct", "correct", "correct"]
    assert checker.counts == {"crash": 1, "error": 1, "correct": 3}
    assert len((tmp_path / "asked").read_text()) == 3  # what was compared is not compared again


def test_a_process_that_dies_is_a_verdict(checker: Checker) -> None:
    checker.readable("1")
    process = checker.child._process
    assert process is not None
    process.kill()
    assert checker.check("27", "26+1").reason in ("crash", "correct")
    assert checker.check("27", "27").correct


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("\\boxed{a{b}c} and \\boxed{d", "a{b}c"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{}", ""),
        ("boxed{3}", None),
        ("\\boxed 3", None),
    ],
)
def test_the_last_complete_box_is_taken(reply: str, answer: str | None) -> None:
    assert boxed_answer(reply) == answer


def test_boxes_are_found_in_linear_time() -> None:
    assert boxed_answer("\\boxed{" * 200_000) is None


def test_real_competition_files(shared_data: Path) -> None:
    folder = shared_data / "math"
    suite = MathSettings(train=str(folder), valid=str(folder / "aime24.jsonl")).build()
    assert (len(suite.tasks("train")), len(suite.tasks("valid"))) == (70, 30)
    env = suite.make()
    for task in suite.tasks("train"):
        env.reset(task)
        assert env.step(f"Therefore \\boxed{{{task.data['answer']}}}.").success
        env.reset(task)
        assert not env.step("\\boxed{-77}").success
    assert suite.header()["valid"]["tasks"] == 30


def test_generated_problems_are_right_and_no_problem_is_in_two_splits(suite: MathSuite) -> None:
    train, valid = suite.tasks("train"), suite.tasks("valid")
    assert not {task.instruction for task in train} & {task.instruction for task in valid}
    assert generate(0, "train") == generate(0, "train")
    for task in train[:8]:
        assert ask(suite, str(task.data["answer"]), f"\\boxed{{{task.data['answer']}}}").success


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('{"problem": "p"}', "line 2: no answer in answer, final_answer.*set answer_field"),
        ('{"answer": "1"}', "line 2: no problem.*set problem_field"),
    ],
)
def test_unusable_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"problem": "1+1", "answer": 2}\n' + line + "\n")
    with pytest.raises(EnvDataError, match=message):
        MathSettings(train=str(file)).build()


def test_lines_end_only_at_line_feeds(tmp_path: Path) -> None:
    file, problem = tmp_path / "p.jsonl", "What is 1+1?\u2028Say\u2029it\x85."
    file.write_text(json.dumps({"problem": problem, "answer": 2}, ensure_ascii=False) + "\r\n\n")
    (task,) = MathSettings(train=str(file)).build().tasks("train")
    assert task.instruction == problem


def test_fields_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps({"Q": "1+1", "A": 2.0}) + "\n")
    suite = MathSettings(train=str(file), problem_field="Q", answer_field="A").build()
    assert suite.tasks("train")[0].data == {"answer": "2"}


def test_a_missing_file_says_what_to_give() -> None:
    with pytest.raises(EnvDataError, match=r"no JSONL file at '/nowhere'.*'generated'"):
        MathSettings(valid="/nowhere").build()


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MathSettings, "packages", ("math_verify", "surely_not_installed"))
    assert MathSettings.missing() == "pip install 'turnpoint[math]'"
    with pytest.raises(EnvDataError, match=r"'math' needs surely_not_installed.*pip install 'turnpoint"):
        MathSettings().build()


def test_settings_are_strict() -> None:
    with pytest.raises(ValidationError, match="did you mean 'train'"):
        MathSettings(trian="x")  # type: ignore[call-arg]


def test_a_reference_that_is_no_mathematics_ends_the_episode_only(suite: MathSuite) -> None:
    with pytest.raises(EnvError, match="cannot be read"):
        suite.make().reset(Task("t", "math", "?", data={"answer": ""}))
