"""An oracle that errs on purpose: as often as set, repeatably, and in every answer anew."""

from __future__ import annotations

import asyncio

import pytest

from turnpoint.config import ConfigError
from turnpoint.records import Episode
from turnpoint.teachers.noise import Noise, NoiseSettings
from turnpoint.teachers.oracle import OracleTeacher, OracleTeacherSettings
from turnpoint.teachers.protocol import Resamples, Situation
from turnpoint.testing import play_actions, toy_suite
from turnpoint.testing.toy_game import ACTIONS

SUITE = toy_suite(max_turns=12)


def teacher(**error: float) -> OracleTeacher:
    return OracleTeacher(SUITE, OracleTeacherSettings(knowledge="full", error=NoiseSettings(**error)))


def wandering(number: int) -> Episode:
    """An episode full of mistakes: the key is never looked for."""
    episode = play_actions(SUITE.make(), SUITE.tasks("train")[number], ["go right", "go left"] * 5)
    episode.id = f"wandering-{number}"
    return episode


def named(asked, episode: Episode) -> list[tuple[int, str]]:
    report = asyncio.run(asked.analyse(episode, 5))
    return [] if report is None else [(c.turn, c.action) for c in report.candidates]


def test_without_errors_nothing_changes() -> None:
    exact = OracleTeacher(SUITE, OracleTeacherSettings(knowledge="full"))
    assert named(teacher(), wandering(3)) == named(exact, wandering(3)) != []
    assert not exact.varies
    assert not teacher().varies
    assert "errors" not in exact.metrics()


@pytest.mark.parametrize("repeated", [0.0, 0.5])
def test_errors_are_as_frequent_as_set(repeated) -> None:
    noise = [Noise(NoiseSettings(actions=0.3, repeated=repeated, seed=5), draw) for draw in range(40)]
    wrong = [
        [n.wrong_action(["a"], ["a", "b", "c"], "b", f"place {place}") == "c" for place in range(100)]
        for n in noise
    ]
    assert 0.27 < sum(map(sum, wrong)) / 4000 < 0.33
    always = sum(all(answers) for answers in zip(*wrong, strict=True))
    assert (always > 5) == (repeated > 0)


def test_wrong_actions_are_never_best_and_never_what_was_done() -> None:
    noise = Noise(NoiseSettings(actions=1.0))
    for place in range(50):
        assert noise.wrong_action(["a", "b"], ["a", "b", "c", "d"], "c", str(place)) == "d"
    assert noise.wrong_action(["a"], ["a", "b"], "b", "no other") is None


def test_wrong_actions_in_reports_and_recoveries() -> None:
    asked, env = teacher(actions=1.0), SUITE.make()
    for number in range(5):
        episode = wandering(number)
        for turn, action in named(asked, episode):
            env.reset(episode.task)
            for past in episode.turns[:turn]:
                env.step(past.executed)
            assert action not in env.best_actions("full")
            assert action in episode.turns[turn].observation.admissible
            assert action != episode.turns[turn].executed
        where = Situation(episode.task, [], episode.turns[0].observation)
        env.reset(episode.task)
        assert asyncio.run(asked.recover(where)) not in env.best_actions("full")
    assert asked.metrics()["errors"] > 5


def test_wrong_turns_are_other_turns_named_once() -> None:
    exact = OracleTeacher(SUITE, OracleTeacherSettings(knowledge="full"))
    moved = 0
    for number in range(6):
        episode = wandering(number)
        before, after = named(exact, episode), named(teacher(turns=1.0), episode)
        assert len(before) == len(after) == len({turn for turn, _ in after})
        moved += sum(turn not in dict(before) for turn, _ in after)
    assert moved > 5


def test_draws_err_by_themselves_and_the_same_question_gets_the_same_answer() -> None:
    asked, episode = teacher(actions=0.5), wandering(3)
    assert isinstance(asked, Resamples)
    assert asked.varies
    answers = [named(asked.draw(number), episode) for number in range(8)]
    assert answers == [named(teacher(actions=0.5).draw(number), episode) for number in range(8)]
    assert answers[0] == named(asked, episode)
    assert len({tuple(answer) for answer in answers}) > 2
    assert asked.metrics()["reports"] == 9


def test_errors_that_all_draws_share_do_not_vary() -> None:
    asked, episode = teacher(actions=0.5, repeated=1.0), wandering(3)
    assert not asked.varies
    assert len({tuple(named(asked.draw(number), episode)) for number in range(5)}) == 1


def test_errors_need_listed_actions() -> None:
    suite = toy_suite()
    capabilities = suite.capabilities
    suite.capabilities = type(capabilities)(deterministic=True, snapshots=True, oracle=True, admissible=False)
    with pytest.raises(ConfigError, match=r"teacher\.error"):
        OracleTeacher(suite, OracleTeacherSettings(error=NoiseSettings(actions=0.1)))


def test_the_lesson_tells_of_what_is_named() -> None:
    report = asyncio.run(teacher(actions=1.0).analyse(wandering(3), 5))
    assert report is not None
    first = min(report.candidates, key=lambda c: c.turn)
    assert first.action in report.lesson
    assert set(report.turn_lessons) == {c.turn for c in report.candidates}
    assert set(ACTIONS) >= {first.action}
