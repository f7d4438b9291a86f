from __future__ import annotations

import asyncio

import pytest

from turnpoint.pivots.detectors import Sources, detector_registry
from turnpoint.pivots.diagnose import FIGURES, Diagnosis, diagnose
from turnpoint.records import Attempt, Episode, EpisodeKind, Pivot, StopReason, Task
from turnpoint.testing import toy_suite

from .tools import lost_key, path, played


def run(episodes: list[Episode], *kinds: str, sources: Sources | None = None, **options: object):
    detectors = {k: detector_registry.parse(k).build(sources or Sources()) for k in ("oracle", *kinds)}
    diagnosis = Diagnosis(detectors, draws=100)
    return asyncio.run(diagnose(episodes, detectors, diagnosis, **options)).as_dict()


def named(episode: Episode, *turns: int) -> Episode:
    for turn in turns:
        episode.pivots.append(Pivot(turn, "teacher", "other", "other"))
    return episode


def test_figures_of_failures() -> None:
    episodes = [
        path([5, 4, 5, 4, 4], "a"),  # pivot 1, 5 turns left, 2 wasted
        path([3, 2, 1, None, None], "b"),  # pivot 2, cannot be undone, 1 wasted
        path([4, 3, 3, 3], "c"),
        path([2, 3, 2, 1, 0], "d", success=True),
    ]
    found = run(episodes)
    overall = found["overall"]
    assert overall["success"]["mean"] == 0.25
    assert overall["pivot_rate"]["mean"] == pytest.approx(2 / 3)
    assert overall["pivot_any"]["mean"] == 0.75
    assert overall["recovered"]["mean"] == pytest.approx(1 / 3)
    assert overall["first_pivot"]["mean"] == 1.5
    assert overall["remaining"] == {"mean": 5.0, "low": 5.0, "high": 5.0, "n": 1}
    assert overall["impossible"]["mean"] == 0.5
    assert overall["wasted"]["mean"] == 1.5
    assert overall["failed_with_pivot"]["mean"] == 0.5
    assert overall["failed_without_pivot"]["mean"] == 0.25
    assert found["by_type"]["kind"]["episodes"] == 4
    assert found["first_pivot_turn"] == {"q25": 1, "median": 1, "q75": 2}


def test_a_detector_against_the_oracle() -> None:
    first = named(path([5, 4, 3, 4, 3], "a"), 1)  # oracle 2: right
    second = named(path([5, 4, 3, 4, 3], "b"), 0)  # wrong
    found = run([first, second, named(path([3, 2, 1, 0], "c", success=True), 2)], "report")["detectors"][
        "report"
    ]
    assert found["agreement"]["mean"] == 0.5
    assert found["chance"]["mean"] == pytest.approx(0.75)
    assert found["precision"]["mean"] == pytest.approx(1 / 3)
    assert found["recall"]["mean"] == 0.5
    assert found["named"] == 3
    assert found["calibration"]["bins"][0]["n"] == 3


def test_everything_left_out_has_a_reason() -> None:
    branch = path([3, 2], "b")
    branch.kind = EpisodeKind.RECOVERY
    cut = path([3, 2], "c")
    cut.stop, cut.success = StopReason.TIME_OUT, None
    open_one = path([3, 2], "d")
    open_one.stop = None
    unmeasured = path([3, 2], "e")
    unmeasured.distances_known = False
    found = run([branch, cut, open_one, unmeasured], "report")
    assert found["episodes"] == 4
    assert found["counted"] == 1
    assert found["left_out"] == {"kind: recovery": 1, "no outcome: time_out": 1, "no outcome: unfinished": 1}
    assert found["detectors"]["oracle"]["left_out"] == {"not on record": 1}
    assert found["detectors"]["report"]["left_out"] == {"not on record": 1}


def test_retries_are_no_independent_episodes() -> None:
    retry = path([2, 3, 3], "b")
    retry.attempt = Attempt(1, ("look first",), "chain")
    found = run([path([2, 3, 3], "a"), retry])
    assert (found["episodes"], found["counted"]) == (2, 1)
    assert found["left_out"] == {"attempt after the first": 1}


def test_a_detector_says_why_it_has_no_answer() -> None:
    other = lost_key()
    other.distances_known = False
    other.task.data["chest"] = 7
    oracle = run([other], sources=Sources(suite=toy_suite(rooms=2)))["detectors"]["oracle"]
    ((reason, count),) = oracle["left_out"].items()
    assert count == 1
    assert len(oracle["reasons"][reason]) > len(reason)


def test_steps_and_task_types_keep_only_what_is_shown_of_them() -> None:
    episodes = [named(path([5, 4, 5, 4, 4], f"e{i}"), 1) for i in range(40)]
    for i, episode in enumerate(episodes):
        episode.step = i
    detectors = {k: detector_registry.parse(k).build(Sources()) for k in ("oracle", "report")}
    diagnosis = Diagnosis(detectors, draws=10)
    found = asyncio.run(diagnose(episodes, detectors, diagnosis)).as_dict()
    assert found["by_step"]["3"]["agreement"]["report"]["mean"] == 1
    for group in ("step\x003\x00", "type\x00kind\x00"):
        kept = [name.removeprefix(group) for name in diagnosis.means.names() if name.startswith(group)]
        assert {*kept} <= {*FIGURES, "detector\x00report\x00agreement"}


def test_distances_come_from_an_environment_where_one_is_given() -> None:
    episode = lost_key()
    episode.distances_known = False
    found = run([episode], sources=Sources(suite=toy_suite(rooms=2)))
    assert found["overall"]["first_pivot"]["mean"] == 3
    assert found["overall"]["impossible"]["mean"] == 1


def test_models_are_asked_about_failures_only() -> None:
    class Counting:
        remote = False
        asked = 0

        async def analyse(self, episode: Episode, max_pivots: int):
            self.asked += 1
            return None

    teacher = Counting()
    episodes = [path([2, 1, 0], "a", success=True), path([3, 3, 3], "b")]
    found = run(episodes, "report", sources=Sources(naming=teacher), ask=True)
    assert teacher.asked == 1
    assert found["detectors"]["report"]["left_out"] == {}
    assert found["detectors"]["report"]["named_rate"]["mean"] == 0


def test_steps_are_kept_apart() -> None:
    episodes = [path([2, 3, 3], f"s{i}") for i in range(4)]
    for episode in episodes[2:]:
        episode.step = 5
    assert list(run(episodes)["by_step"]) == ["0", "5"]


def test_task_types_without_end_share_a_row() -> None:
    episodes = [path([2, 3, 3], f"s{i}") for i in range(90)]
    for i, episode in enumerate(episodes):
        episode.task = Task(episode.id, "toy", type=f"type-{i}")
    types = run(episodes)["by_type"]
    assert len(types) == 61
    assert types["(others)"]["episodes"] == 30


def test_play_of_an_agent_agrees_with_its_records() -> None:
    episodes = played(20)
    found = run(episodes)
    failed = [e for e in episodes if not e.success]
    assert found["overall"]["success"]["mean"] == pytest.approx(1 - len(failed) / len(episodes))
    assert found["detectors"]["oracle"]["agreement"]["mean"] == 1
