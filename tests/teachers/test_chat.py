"""What chat models are asked and how their replies count, with a scripted model in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import ContextOverflow
from turnpoint.prompts.report import Candidate, Report
from turnpoint.records import Episode, Message
from turnpoint.teachers import Situation, TeacherError, TeacherFailure, teacher_registry
from turnpoint.teachers.self_teacher import SelfTeacher
from turnpoint.testing import play_actions, toy_suite

REPORT = (
    '```json\n{"summary": "lost", "lesson": "the key is in room 5", "turn_lessons": {"0": "a", "2": "b"}}\n```\n'
    '<correct_action step="0">switch on lamp</correct_action>\n'
    '<correct_action step="2">Go to the right</correct_action>'
)


def played() -> Episode:
    suite = toy_suite()
    actions = ["wait", "go left", "go right", "wait"]
    return play_actions(suite.make(), suite.tasks("train")[0], actions, snapshots=False)


def student(answer: Callable[[str], str], **settings: object) -> tuple[SelfTeacher, list[str]]:
    """A self-teacher whose student answers by ``answer``, and the prompts it was shown."""
    prompts: list[str] = []

    async def complete(messages: Sequence[Message]) -> str:
        prompts.append("\n".join(message.content for message in messages))
        return answer(prompts[-1])

    built = teacher_registry.parse({"kind": "self"} | settings).build(toy_suite(), complete)
    assert isinstance(built, SelfTeacher)
    return built, prompts


def test_report_is_read_from_one_call() -> None:
    teacher, prompts = student(lambda _: REPORT)
    report = asyncio.run(teacher.analyse(played(), 5))
    assert report == Report(
        "lost",
        "the key is in room 5",
        {0: "a", 2: "b"},
        [Candidate(0, "switch on lamp"), Candidate(2, "Go to the right")],
    )
    assert len(prompts) == 1
    assert toy_suite().instructions in prompts[0]
    assert teacher.metrics()["requests"] == 1


def test_limit_reaches_prompt_and_parser() -> None:
    teacher, prompts = student(lambda _: REPORT)
    report = asyncio.run(teacher.analyse(played(), 1))
    assert report is not None
    assert report.candidates == [Candidate(0, "switch on lamp")]
    assert "at most 1 " in prompts[0]


def test_trajectory_view_shows_no_later_turn_and_drops_hindsight() -> None:
    episode = played()

    def answer(prompt: str) -> str:
        if "<correct_action" in prompt:
            return REPORT
        first = "[turn 0]" not in prompt
        return f"<action>{'switch on lamp' if first else episode.turns[2].executed.upper()}</action>"

    teacher, prompts = student(answer, see="trajectory")
    report = asyncio.run(teacher.analyse(episode, 5))
    assert report == Report("lost", None, {}, [Candidate(0, "switch on lamp")])
    assert len(prompts) == 3
    assert not any("[turn 2]" in prompt or "[turn 3]" in prompt for prompt in prompts[1:])
    assert episode.turns[2].observation.text in prompts[2]


def test_failure_of_one_second_look_costs_that_turn_only() -> None:
    def answer(prompt: str) -> str:
        if "<correct_action" in prompt:
            return REPORT
        if "[turn 0]" in prompt:
            raise TimeoutError
        return "<action>switch on lamp</action>"

    teacher, _ = student(answer, see="trajectory")
    report = asyncio.run(teacher.analyse(played(), 5))
    assert report is not None
    assert report.candidates == [Candidate(0, "switch on lamp")]
    assert teacher.metrics()["failures/time_out"] == 1


@pytest.mark.parametrize("reply", ["", "no idea", "{not json", "<think>" + REPORT, "\ud800"])
def test_unusable_report_is_a_typed_failure(reply: str) -> None:
    teacher, _ = student(lambda _: reply)
    with pytest.raises(TeacherError) as caught:
        asyncio.run(teacher.analyse(played(), 5))
    assert caught.value.reason is TeacherFailure.UNPARSABLE
    assert teacher.metrics()["failures/unparsable"] == 1


def test_episode_without_turns_is_not_asked_about() -> None:
    teacher, prompts = student(lambda _: REPORT)
    assert asyncio.run(teacher.analyse(Episode("e", played().task), 5)) is None
    assert prompts == []


def situation(turn: int) -> Situation:
    episode = played()
    return Situation(episode.task, episode.turns[:turn], episode.observation_at(turn), turn=turn)


def test_recovery_shows_the_situation_and_reads_the_action() -> None:
    teacher, prompts = student(lambda _: "I would <action>go left</action>", window=2)
    assert asyncio.run(teacher.recover(situation(3))) == "go left"
    assert situation(3).observation.text in prompts[0]
    assert "switch on lamp" in prompts[0]
    assert "[turn 0]" not in prompts[0]
    assert "[turn 1]" in prompts[0]


def test_recovery_without_an_action_is_a_typed_failure() -> None:
    teacher, _ = student(lambda _: "hmm")
    with pytest.raises(TeacherError) as caught:
        asyncio.run(teacher.recover(situation(1)))
    assert caught.value.reason is TeacherFailure.UNPARSABLE


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), TeacherFailure.TIME_OUT),
        (ContextOverflow("9000 tokens of 8192"), TeacherFailure.BUDGET),
        (TeacherError(TeacherFailure.REFUSED, "no"), TeacherFailure.REFUSED),
    ],
)
def test_failures_of_the_student_are_typed(error: Exception, reason: TeacherFailure) -> None:
    def answer(_: str) -> str:
        raise error

    teacher, _ = student(answer)
    with pytest.raises(TeacherError) as caught:
        asyncio.run(teacher.analyse(played(), 5))
    assert caught.value.reason is reason
    assert teacher.metrics()[f"failures/{reason.value}"] == 1


def test_self_teacher_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="no model to ask"):
        teacher_registry.parse("self").build(toy_suite())


def test_registry_knows_the_kinds_and_helps_with_typos() -> None:
    assert {"oracle", "http", "self"} <= set(teacher_registry.names())
    with pytest.raises(ConfigError, match="did you mean 'oracle'"):
        teacher_registry.parse("oracel")


def test_draws_are_answers_of_their_own_with_common_counts() -> None:
    asked: list[int] = []

    async def complete(messages: Sequence[Message], draw: int = 0, /) -> str:
        asked.append(draw)
        return f"<action>wait {draw}</action>"

    teacher = teacher_registry.parse("self").build(toy_suite(), complete)
    episode = played()
    where = Situation(episode.task, episode.turns[:1], episode.turns[1].observation)
    answers = [asyncio.run(teacher.draw(number).recover(where)) for number in (0, 2, 1)]
    assert asked == [0, 2, 1]
    assert answers == ["wait 0", "wait 2", "wait 1"]
    assert teacher.varies
    assert teacher.metrics()["recoveries"] == 3
