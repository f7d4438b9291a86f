from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import pytest

from turnpoint.config import ConfigError
from turnpoint.pivots.detectors import (
    Detection,
    DetectorFailure,
    DetectorSettings,
    Sources,
    detector_registry,
)
from turnpoint.pivots.detectors.protocol import Base
from turnpoint.prompts import Candidate, Report
from turnpoint.records import Episode, Observation, Pivot, Reflection, Turn
from turnpoint.teachers.protocol import TeacherError, TeacherFailure
from turnpoint.testing import stochastic_suite, toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring

from .tools import agent, lost_key, path, played


def make(kind: str, sources: Sources | None = None, **settings: object):
    return detector_registry.parse({"kind": kind, **settings}).build(sources or Sources())


def detect(detector, episode: Episode):
    return asyncio.run(detector.detect(episode))


def turns(samples) -> list[list[int]]:
    return [[d.turn for d in sample] for sample in samples]


class TestOracle:
    def test_recorded_distances_are_enough(self) -> None:
        (sample,) = make("oracle").recorded(path([5, 4, 6, 5, None]))
        assert [(d.turn, d.score) for d in sample] == [(1, 2.0), (3, math.inf)]

    def test_distances_are_measured_by_replay(self) -> None:
        episode = lost_key()
        known = [turn.distance for turn in episode.turns]
        episode.distances_known = False
        detector = make("oracle", Sources(suite=toy_suite(rooms=2)))
        assert detector.recorded(episode) is None
        assert turns(detect(detector, episode)) == [[3]]
        assert [turn.distance for turn in episode.turns] == known
        detector.close()

    def test_a_replay_that_differs_is_a_reason_not_a_crash(self) -> None:
        episode = lost_key()
        episode.distances_known = False
        episode.turns[2].observation = Observation("something else")
        with pytest.raises(DetectorFailure) as caught:
            detect(make("oracle", Sources(suite=toy_suite(rooms=2))), episode)
        assert caught.value.reason == "ReplayMismatch"
        assert not episode.distances_known

    def test_without_a_source_it_is_not_on_record(self) -> None:
        with pytest.raises(DetectorFailure) as caught:
            detect(make("oracle"), Episode("e", lost_key().task))
        assert caught.value.reason == "not on record"

    def test_an_environment_that_cannot_serve_is_refused_at_once(self) -> None:
        with pytest.raises(ConfigError, match="no oracle"):
            make("oracle", Sources(suite=toy_suite(oracle=False)))
        with pytest.raises(ConfigError, match="deterministic"):
            make("oracle", Sources(suite=stochastic_suite()))


class Scripted:
    """A naming teacher that gives reports one after another."""

    remote = False

    def __init__(self, *answers: list[tuple[int, str]] | TeacherFailure) -> None:
        self.answers = list(answers)

    async def analyse(self, episode: Episode, max_pivots: int) -> Report | None:
        answer = self.answers.pop(0)
        if isinstance(answer, TeacherFailure):
            raise TeacherError(answer, "scripted")
        return Report(candidates=[Candidate(turn, action) for turn, action in answer])

    async def recover(self, situation):
        return "wait"


class Drawn(Scripted):
    """A teacher like the policy itself: asked again it repeats itself, and each draw has an answer of its own."""

    def __init__(self, *named: int, number: int = 0) -> None:
        self.named, self.number = named, number

    @property
    def varies(self) -> bool:
        return len(self.named) > 1

    def draw(self, number: int) -> Drawn:
        return Drawn(*self.named, number=number)

    async def analyse(self, episode: Episode, max_pivots: int) -> Report:
        return Report(candidates=[Candidate(self.named[self.number], "go left")])


class TestReport:
    def test_only_candidates_with_another_action_count(self) -> None:
        episode = lost_key()
        teacher = Scripted([(3, "go left"), (4, "wait"), (2, "no such thing"), (99, "wait")])
        detector = make("report", Sources(naming=teacher))
        assert turns(detect(detector, episode)) == [[3]]
        assert detector.counts["turn outside the episode"] == 1
        assert detector.counts["gold action is the one taken, or cannot be taken"] == 2

    def test_an_unparsable_report_is_a_wrong_answer_and_others_are_none(self) -> None:
        episode = lost_key()
        teacher = Scripted([(3, "go left")], TeacherFailure.UNPARSABLE, TeacherFailure.TIME_OUT)
        detector = make("report", Sources(naming=teacher), samples=3)
        samples = detect(detector, episode)
        assert turns(samples) == [[3], []]
        assert samples[0][0].score == 0.5
        assert detector.counts == {"teacher: unparsable": 1, "teacher: time_out": 1}

    def test_each_report_is_a_draw_of_its_own(self) -> None:
        detector = make("report", Sources(naming=Drawn(3, 4, 5)), samples=3)
        (first, second, third) = detect(detector, lost_key())
        assert turns([first, second, third]) == [[3], [4], [5]]
        assert [sample[0].score for sample in (first, second, third)] == pytest.approx([2 / 3, 1, 2 / 3])
        assert detector.probability

    def test_a_teacher_that_always_answers_the_same_is_asked_once(self) -> None:
        detector = make("report", Sources(naming=Drawn(3)), samples=5)
        assert turns(detect(detector, lost_key())) == [[3]]
        assert detector.counts == {"asked once, since the teacher always answers the same": 4}

    def test_ranks_of_one_report_are_no_probabilities(self) -> None:
        detector = make("report", Sources(naming=Scripted([(3, "go left"), (4, "go left")])))
        assert [d.score for d in detect(detector, lost_key())[0]] == [1.0, 0.8]
        assert not detector.probability
        several = make("report", samples=5)
        assert several.probability
        episode = lost_key()
        episode.pivots = [Pivot(3, "teacher", "go left"), Pivot(4, "teacher", "go left")]
        assert [d.score for d in several.recorded(episode)[0]] == [1.0, 1.0]

    def test_a_teacher_that_never_answers_is_a_reason(self) -> None:
        with pytest.raises(DetectorFailure) as caught:
            detect(make("report", Sources(naming=Scripted(TeacherFailure.UNREACHABLE))), lost_key())
        assert caught.value.reason == "teacher: unreachable"

    def test_recorded_pivots_are_used(self) -> None:
        episode = lost_key()
        episode.pivots = [
            Pivot(3, "teacher", "go left", "go left"),
            Pivot(1, "random", "wait"),
            Pivot(4, "teacher", "wait"),
        ]
        assert turns(make("report").recorded(episode)) == [[3]]
        assert make("report").recorded(path([2, 2])) is None

    def test_a_report_that_named_nothing_is_an_answer(self) -> None:
        episode = path([3, 2, 3])
        episode.summary = "all went well"
        assert make("report").recorded(episode) == [[]]


class TestReflection:
    def test_recorded(self) -> None:
        episode = path([3, 2, 3])
        detector = make("reflection")
        assert detector.recorded(episode) is None
        episode.reflection = Reflection(pivot=1, valid=True)
        assert detector.recorded(episode) == [[Detection(1, 1.0)]]
        episode.reflection = Reflection(pivot=None, valid=False)
        assert detector.recorded(episode) == [[]]

    def test_samples_are_drawn_apart(self) -> None:
        suite = toy_suite()
        rollouts, _ = agent(suite)
        asked: list[int] = []

        def script(prompt: str, seed: int) -> str:
            asked.append(seed)
            return "<turn>1</turn><remark>look first</remark>"

        rollouts.policy.script = script
        detector = make("reflection", Sources(rollouts=rollouts), samples=3)
        samples = detect(detector, lost_key())
        assert len(samples) == 3
        assert len(set(asked)) == 3


def scored(values: list[float]) -> Episode:
    episode = path([5] * (len(values) + 1))
    for turn, value in zip(episode.turns, values, strict=True):
        turn.response_ids, turn.scores["teacher"] = (1, 2), (value, value)
    return episode


class TestLogprobDrop:
    def test_the_drop_is_measured_against_the_same_turn_of_others(self) -> None:
        detector = make("logprob_drop")
        usual = [scored([-2.0, -0.5, -0.5]) for _ in range(9)]
        asyncio.run(detector.prepare(usual))
        (sample,) = detector.recorded(scored([-2.0, -1.5, -0.4]))
        assert [(d.turn, pytest.approx(d.score)) for d in sample] == [(1, 1.0)]

    def test_a_threshold_and_several_turns(self) -> None:
        detector = make("logprob_drop", top=5, threshold=0.5)
        asyncio.run(detector.prepare([scored([-1.0, -1.0, -1.0])]))
        assert turns(detector.recorded(scored([-1.6, -1.4, -3.0]))) == [[2, 0]]

    def test_the_scoring_teacher_is_asked(self) -> None:
        suite = toy_suite()
        rollouts, _ = agent(suite)
        (episode,) = asyncio.run(_play(rollouts, suite, 1))
        teacher = ScriptedScoring(lambda e, t: -3.0 if t.index == 2 else -1.0)
        detector = make("logprob_drop", Sources(scoring=lambda task: teacher))
        asyncio.run(detector.prepare([]))
        detector._overall = -1.0
        assert turns(detect(detector, episode)) == [[2]]
        assert detector.recorded(episode) is not None

    def test_what_was_asked_for_the_baseline_is_not_asked_again(self) -> None:
        suite = toy_suite(max_turns=4)
        rollouts, _ = agent(suite)
        episodes = asyncio.run(_play(rollouts, suite, 6))
        failed = [episode for episode in episodes if not episode.success]
        asked: list[str] = []

        def score(episode: Episode, turn: Turn) -> float:
            asked.append(episode.id)
            return -1.0 - (turn.index == 2)

        teacher = ScriptedScoring(score)
        detector = make("logprob_drop", Sources(scoring=lambda task: teacher))
        asyncio.run(detector.prepare(episodes))
        assert set(asked) == {episode.id for episode in episodes}
        asked.clear()
        for episode in failed:
            for turn in episode.turns:
                turn.scores.clear()  # as it is read again from its file
            assert detect(detector, episode) == [[]]
        assert not asked
        again = replace(failed[0], turns=failed[0].turns[:-1])  # of another step, under the same id
        detect(detector, again)
        assert set(asked) == {failed[0].id}

    def test_episodes_that_cannot_be_asked_about_are_counted_out_of_the_baseline(self) -> None:
        detector = make("logprob_drop", Sources(scoring=lambda task: ScriptedScoring()))
        asyncio.run(detector.prepare([lost_key()]))
        assert detector.counts == {"baseline: no tokens on record": 1}

    def test_imported_turns_have_no_tokens(self) -> None:
        detector = make("logprob_drop", Sources(scoring=lambda task: ScriptedScoring()))
        with pytest.raises(DetectorFailure, match="no tokens"):
            detect(detector, lost_key())


async def _play(rollouts, suite, count):
    return [await rollouts.play(task, 0) for task in suite.tasks("train")[:count]]


class TestHinted:
    def test_gold_actions_of_the_oracle_and_both_log_probs(self) -> None:
        suite = toy_suite()
        rollouts, scorer = agent(suite, obedient=False)
        (episode,) = asyncio.run(_play(rollouts, suite, 1))
        detector = make("hinted", Sources(suite=suite, scorer=scorer), top=50, threshold=-10.0)
        (sample,) = detect(detector, episode)
        wrong = {t.index for t in episode.turns if t.gold_actions and t.executed not in t.gold_actions}
        assert {d.turn for d in sample} == wrong != set()
        assert turns(detector.recorded(episode)) == turns([sample])

    def test_without_gold_actions_there_is_a_reason(self) -> None:
        _, scorer = agent(toy_suite())
        with pytest.raises(DetectorFailure) as caught:
            detect(make("hinted", Sources(scorer=scorer)), lost_key())
        assert caught.value.reason == "no gold actions"

    def test_turns_without_tokens_are_counted(self) -> None:
        suite = toy_suite(rooms=2)
        _, scorer = agent(suite)
        detector = make("hinted", Sources(suite=suite, scorer=scorer))
        assert detect(detector, lost_key()) == [[]]
        assert detector.counts["turn without prompt or tokens"] > 0


class FixedSettings(DetectorSettings):
    kind: str = "tests"
    at: int = 0

    def build(self, sources: Sources):
        return Fixed(sources, self.at)


class Fixed(Base):
    answers: ClassVar[dict[int, list[list[int]]]] = {}

    def __init__(self, sources: Sources, at: int) -> None:
        super().__init__(sources, f"fixed-{at}")
        self.at = at

    def recorded(self, episode: Episode):
        found = self.answers.get(self.at)
        return None if found is None else [[Detection(t, 1.0) for t in sample] for sample in found]

    async def detect(self, episode: Episode):
        raise DetectorFailure("scripted")


class TestVote:
    def vote(self, *answers: list[list[int]], **settings: object):
        Fixed.answers = dict(enumerate(answers))
        members = [FixedSettings(at=i) for i in range(len(answers))]
        return make("vote", members=members, **settings)

    def test_neighbours_count_as_one_mistake(self) -> None:
        found = self.vote([[3]], [[4]], [[9]]).recorded(path([5] * 12))
        assert turns(found) == [[3]]
        assert found[0][0].score == pytest.approx(2 / 3)

    def test_every_name_counts_once(self) -> None:
        assert turns(self.vote([[3, 7]], [[4, 8]]).recorded(path([5] * 12))) == [[3, 7]]
        assert turns(self.vote([[3, 4, 5]], [[9]]).recorded(path([5] * 12))) == [[]]

    def test_samples_go_round(self) -> None:
        found = self.vote([[1], [5]], [[1]], least=2).recorded(path([5] * 12))
        assert turns(found) == [[1], []]

    def test_members_that_fail_are_counted(self) -> None:
        vote = self.vote([[3]], [[3]])
        Fixed.answers = {0: [[3]]}
        assert vote.recorded(path([5] * 6)) is None
        with pytest.raises(DetectorFailure, match="too few"):
            detect(vote, path([5] * 6))
        assert vote.counts == {"fixed-1: scripted": 1}

    def test_more_votes_than_members_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no turn could ever be named"):
            detector_registry.parse({"kind": "vote", "members": ["oracle"], "least": 2})


def test_a_detector_from_outside_and_a_misspelt_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_detectors")
    module.Mine = FixedSettings
    monkeypatch.setitem(sys.modules, "my_detectors", module)
    assert make("my_detectors:Mine", at=7).name == "fixed-7"
    with pytest.raises(ConfigError, match="did you mean 'reflection'"):
        detector_registry.parse("reflektion")


def test_all_kinds_can_be_built() -> None:
    for name in detector_registry.names():
        detector = make(name)
        assert detector.name == name
        assert sorted(detector.edges) == list(detector.edges)


def test_recorded_episodes_of_play_are_read_by_the_oracle() -> None:
    for episode in played(10):
        assert make("oracle").recorded(episode) is not None
