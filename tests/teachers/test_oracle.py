"""The oracle names exactly the turns that were mistakes, with what it was allowed to know."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.prompts.report import Report
from turnpoint.records import Episode, Task
from turnpoint.teachers import Situation, TeacherError, TeacherFailure, teacher_registry
from turnpoint.teachers.oracle import OracleTeacher, OracleTeacherSettings
from turnpoint.testing import (
    ToyEnv,
    ToySuite,
    crashing_suite,
    play_actions,
    play_oracle,
    replay_suite,
    stochastic_suite,
    toy_suite,
)
from turnpoint.testing.toy_env import KIND
from turnpoint.testing.toy_game import ACTIONS

LAMP, TAKE, THROW, OPEN = "switch on lamp", "take key", "throw key away", "open chest"


def corridor(chest: int, key: int, start: int) -> Task:
    return Task("corridor", KIND, "Open the chest.", data={"chest": chest, "key": key, "start": start})


def teacher(suite: ToySuite | None = None, **settings: object) -> OracleTeacher:
    return OracleTeacher(suite or toy_suite(), OracleTeacherSettings.model_validate(settings))


def analyse(asked: OracleTeacher, episode: Episode, most: int = 5) -> Report | None:
    return asyncio.run(asked.analyse(episode, most))


def named(report: Report | None) -> list[tuple[int, str]]:
    return [] if report is None else [(c.turn, c.action) for c in report.candidates]


def test_observed_names_what_the_agent_could_have_known() -> None:
    """Walking away from an unlit room is a mistake; walking the wrong way in search of the key is none."""
    episode = play_actions(
        toy_suite().make(), corridor(chest=2, key=0, start=2), [LAMP, "go right", LAMP, "go right", "go left"]
    )
    assert named(analyse(teacher(), episode)) == [(4, LAMP)]


def test_full_names_every_turn_after_which_the_distance_rose() -> None:
    episode = play_actions(
        toy_suite().make(), corridor(chest=2, key=0, start=2), [LAMP, "go right", "go left", "wait"]
    )
    assert named(analyse(teacher(knowledge="full"), episode)) == [(1, "go left")]


def test_irreversible_mistake_is_named_once_and_nothing_after_it() -> None:
    actions = [LAMP, TAKE, THROW, "wait", "go left"]
    episode = play_actions(toy_suite().make(), corridor(chest=1, key=0, start=0), actions)
    for knowledge in ("full", "observed"):
        assert named(analyse(teacher(knowledge=knowledge), episode)) == [(2, "go right")]


def test_ineffective_action_is_a_mistake_and_its_text_stays_out_of_the_lesson() -> None:
    episode = play_actions(toy_suite().make(), corridor(chest=1, key=0, start=0), ["abracadabra"])
    report = analyse(teacher(), episode)
    assert report is not None
    assert report.candidates[0].action == LAMP
    assert report.lesson == f"Do {LAMP}."


SOKOBAN = SokobanSettings(train_tasks=4, valid_tasks=1).build()


@given(st.integers(0, 3), st.lists(st.sampled_from(["", " ", "  "]), min_size=2, max_size=2), st.booleans())
def test_another_spelling_of_a_best_action_is_no_mistake(task: int, gaps: list[str], upper: bool) -> None:
    env = SOKOBAN.make()
    chosen = SOKOBAN.tasks("train")[task]
    env.reset(chosen)
    best = env.best_actions()
    spelt = [f"{gaps[0]},{gaps[1]}".join(action.split(", ")) for action in best]
    other = next(a for a in ("up", "down", "left", "right", "up, up") if a not in best)
    asked = OracleTeacher(SOKOBAN, OracleTeacherSettings())
    for action in spelt:
        episode = play_actions(SOKOBAN.make(), chosen, [action.upper() if upper else action])
        assert analyse(asked, episode) is None
    assert named(analyse(asked, play_actions(SOKOBAN.make(), chosen, [other]))) == [(0, best[0])]


def test_a_spelling_that_the_environment_refuses_is_a_mistake() -> None:
    """The corridor takes commands to the letter."""
    episode = play_actions(toy_suite().make(), corridor(chest=1, key=0, start=0), [LAMP.upper()])
    assert not episode.turns[0].effective
    assert named(analyse(teacher(), episode)) == [(0, LAMP)]


@given(st.integers(0, 40), st.lists(st.sampled_from([*ACTIONS, "dance"]), max_size=12), st.booleans())
def test_candidates_equal_a_direct_reading_of_the_definition(
    number: int, actions: list[str], snapshots: bool
) -> None:
    suite = toy_suite(snapshots=snapshots)
    task, env = suite.tasks("train")[number], suite.make()
    episode = play_actions(env, task, actions)
    rose, unwise = [], []
    env.reset(task)
    for index, turn in enumerate(episode.turns):
        before, best, seen = env.distance(), env.best_actions(), env.best_actions("observed")
        env.step(turn.executed)
        after = env.distance()
        if before is not None and (after is None or after > before):
            rose.append((index, best[0]))
        if seen and turn.executed not in seen:
            unwise.append((index, seen[0]))
    assert named(analyse(teacher(suite, knowledge="full"), episode, 99)) == rose
    assert named(analyse(teacher(suite, knowledge="observed"), episode, 99)) == unwise


def test_perfect_play_has_nothing_to_report() -> None:
    suite = toy_suite()
    for knowledge in ("full", "observed"):
        asked = teacher(suite, knowledge=knowledge)
        for task in suite.tasks("train")[:8]:
            assert analyse(asked, play_oracle(suite.make(), task, knowledge=knowledge)) is None  # type: ignore[arg-type]


def test_limits_and_order() -> None:
    actions = ["wait", "wait", LAMP, TAKE, THROW]
    episode = play_actions(toy_suite().make(), corridor(chest=1, key=0, start=0), actions)
    assert [turn for turn, _ in named(analyse(teacher(), episode, 2))] == [0, 1]
    assert [turn for turn, _ in named(analyse(teacher(max_candidates=1), episode, 5))] == [0]
    assert [turn for turn, _ in named(analyse(teacher(order="worst"), episode, 5))] == [4, 0, 1]
    assert [turn for turn, _ in named(analyse(teacher(order="worst"), episode, 1))] == [4]


def test_no_pivots_asked_for_leaves_the_lesson() -> None:
    episode = play_actions(toy_suite().make(), corridor(chest=1, key=0, start=0), ["wait"])
    report = analyse(teacher(), episode, 0)
    assert report is not None
    assert (report.candidates, report.turn_lessons) == ([], {})
    assert report.lesson == f"Do {LAMP} instead of wait."
    without = analyse(teacher(lesson=False), episode)
    assert without is not None
    assert without.lesson is None


def test_lesson_words_are_declared() -> None:
    suite = toy_suite()
    known = set(re.findall(r"\w+", " ".join(suite.vocabulary_texts())))
    known |= set(re.findall(r"\w+", " ".join(OracleTeacherSettings().vocabulary_texts())))
    episode = play_actions(suite.make(), suite.tasks("train")[0], ["wait", "abracadabra", "go left"])
    report = analyse(teacher(), episode)
    assert report is not None
    for lesson in (report.lesson or "", *report.turn_lessons.values()):
        assert set(re.findall(r"\w+", lesson)) <= known


def test_recorded_distances_are_used_instead_of_asking() -> None:
    suite = replay_suite()
    episode = play_actions(suite.make(), corridor(chest=1, key=0, start=0), ["wait", "wait"])
    episode.distances_known, episode.final_distance = True, 3
    episode.turns[0].distance, episode.turns[1].distance = 9, 4
    assert named(analyse(teacher(suite, knowledge="full"), episode)) == []
    episode.turns[1].distance = 10
    assert named(analyse(teacher(suite, knowledge="full"), episode)) == [(0, LAMP)]


def test_recover_gives_the_best_action_with_and_without_snapshots() -> None:
    for suite in (toy_suite(), replay_suite()):
        episode = play_actions(suite.make(), corridor(chest=1, key=0, start=0), [LAMP, "wait"])
        situation = Situation(
            episode.task, episode.turns, episode.observation_at(2), episode.final_snapshot, turn=2
        )
        assert asyncio.run(teacher(suite).recover(situation)) == TAKE


def test_recover_has_no_answer_once_all_is_lost() -> None:
    suite = toy_suite()
    episode = play_actions(suite.make(), corridor(chest=1, key=0, start=0), [LAMP, TAKE, THROW])
    situation = Situation(
        episode.task, episode.turns, episode.observation_at(3), episode.final_snapshot, turn=3
    )
    assert asyncio.run(teacher(suite).recover(situation)) is None


def test_state_that_cannot_be_brought_back_is_a_typed_failure() -> None:
    suite = replay_suite()
    asked = teacher(suite)
    episode = play_actions(suite.make(), corridor(chest=1, key=0, start=0), ["wait", "wait"])
    good = episode.turns[1].observation
    episode.turns[1].observation = replace(good, text="something else")
    with pytest.raises(TeacherError) as caught:
        analyse(asked, episode)
    assert caught.value.reason is TeacherFailure.STATE
    episode.turns[1].observation = good
    assert len(named(analyse(asked, episode))) == 2
    assert asked.metrics()["failures/state"] == 1
    assert asked.metrics()["reports"] == 2
    assert "prompt_tokens" not in asked.metrics()


def test_crash_of_the_environment_is_a_typed_failure() -> None:
    episode = play_actions(replay_suite().make(), corridor(chest=1, key=0, start=0), ["wait"] * 4)
    asked = teacher(crashing_suite(snapshots=False))
    with pytest.raises(TeacherError, match="collapsed") as caught:
        analyse(asked, episode)
    assert caught.value.reason is TeacherFailure.STATE


def test_environment_that_cannot_serve_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="has no oracle"):
        teacher_registry.parse("oracle").build(toy_suite(oracle=False))
    with pytest.raises(ConfigError, match="neither snapshots nor"):
        teacher_registry.parse("oracle").build(stochastic_suite())
    teacher_registry.parse("oracle").build(stochastic_suite(snapshots=True))


class CountingEnv(ToyEnv):
    """Counts how often the oracle is asked."""

    asked = 0

    def best_actions(self, knowledge: str = "full") -> list[str]:
        type(self).asked += 1
        return super().best_actions(knowledge)  # type: ignore[arg-type]


def test_episodes_of_one_task_share_answers_of_their_common_beginning() -> None:
    suite = ToySuite(toy_suite().settings, CountingEnv)
    task = corridor(chest=1, key=0, start=0)
    common = ["wait", "go right", "go left"]
    episodes = [play_actions(suite.make(), task, [*common, *rest]) for rest in ([LAMP], ["wait"], [LAMP])]
    asked = teacher(suite)
    CountingEnv.asked = 0
    reports = [named(analyse(asked, episode, 99)) for episode in episodes]
    assert CountingEnv.asked == 4
    fresh = [named(analyse(teacher(suite), episode, 99)) for episode in episodes]
    assert reports == fresh


def test_tasks_with_equal_ids_are_kept_apart() -> None:
    suite = toy_suite()
    asked = teacher(suite)
    for task in (corridor(chest=1, key=0, start=0), corridor(chest=0, key=1, start=1)):
        episode = play_actions(suite.make(), task, [LAMP, TAKE, "wait"])
        expected = "go right" if task.data["chest"] == 1 else "go left"
        assert named(analyse(asked, episode)) == [(2, expected)]


def test_stochastic_states_are_never_shared() -> None:
    suite = stochastic_suite(snapshots=True, slip=0.5, rooms=4)
    asked, env = teacher(suite, knowledge="full"), suite.make()
    task = corridor(chest=3, key=3, start=0)
    for _ in range(10):
        episode = play_actions(env, task, ["go right"] * 3 + ["go left"] * 2)
        texts = [episode.observation_at(index).text for index in range(6)]
        assert [turn for turn, _ in named(analyse(asked, episode))] == [
            index for index in range(5) if "go left" in texts[index + 1] or "You go left" in texts[index + 1]
        ]
