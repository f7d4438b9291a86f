from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.prefix_buffer import PrefixBuffer, RestartSettings
from turnpoint.methods.stride import StrideSettings
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Observation, StopReason, Task, Turn
from turnpoint.teachers.protocol import TeacherError, TeacherFailure
from turnpoint.testing import replay_suite, stochastic_suite, toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring
from turnpoint.training.loop import rollout_metrics

NO_BUFFER = {"restart": None}


def stride(threshold=-1.5, alpha=-0.8, argmin_over="all", **changes) -> StrideSettings:
    data = {"stop": {"lambda": threshold}, "restart": {"alpha": alpha, "argmin_over": argmin_over}}
    return StrideSettings.model_validate(data | changes)


def by_step(table):
    """Turn scores from a table: step -> l of each turn; the last one goes on."""
    return lambda episode, turn: table[episode.step][min(turn.index, len(table[episode.step]) - 1)]


def never_done(prompt: str, seed: int) -> str:
    return "I do not know."


@pytest.mark.parametrize("group", [1, 3])
def test_without_threshold_and_buffer_it_is_opd_bit_for_bit(play, group) -> None:
    def values(episode, turn):
        return np.sin(np.asarray(turn.logprobs) * 37) - 1

    ours = play(
        StrideSettings(group=group, stop={"lambda": -math.inf}, **NO_BUFFER), scoring=ScriptedScoring(values)
    )
    opd = play(OPDSettings(group=group), scoring=ScriptedScoring(values))
    assert len(ours.rows) == len(opd.rows) > 0
    for a, b in zip(ours.rows, opd.rows, strict=True):
        assert (a.prompt_ids, a.response_ids, a.episode, a.turn) == (
            b.prompt_ids,
            b.response_ids,
            b.episode,
            b.turn,
        )
        assert a.advantages.tobytes() == b.advantages.tobytes()
        assert a.old_logprobs.tobytes() == b.old_logprobs.tobytes()


@pytest.mark.parametrize(("argmin_over", "reused"), [("all", 0), ("new", 1)])
def test_two_rounds_of_the_worked_example(stepper, argmin_over, reused) -> None:
    table = {0: [-0.5, -0.7, -0.6], 1: [None, -0.4, -0.9, -0.5], 2: [-0.1]}
    run = stepper(
        stride(argmin_over=argmin_over),
        scoring=ScriptedScoring(by_step(table)),
        script=never_done,
        tasks=toy_suite().tasks("train")[:1],
    )
    first = run.step()
    (episode,) = first.groups[0].episodes
    assert episode.stop == StopReason.OUT_OF_SUPPORT
    assert episode.success is None
    assert [row.turn for row in first.rows] == [0, 1, 2]
    assert (first.tally["window/k_max"], first.tally["window/k_star"]) == (3, 2)

    second = run.step()
    (episode,) = second.groups[0].episodes
    assert [turn.reused for turn in episode.turns] == [True, False, False, False]
    assert episode.stop == StopReason.OUT_OF_SUPPORT
    assert [row.turn for row in second.rows] == [1, 2, 3]
    assert second.tally["window/k_max"] == 2
    assert second.tally["window/k_star"] == reused + 1
    assert second.tally["prefixes"] == reused

    (episode,) = run.step().groups[0].episodes
    assert sum(turn.reused for turn in episode.turns) == reused


@pytest.mark.parametrize(
    ("scores", "threshold", "turns"),
    [([-0.5, -0.6, -1.5], -1.0, 2), ([-0.5, -0.6, -1.5], -2.0, 3), ([-0.5, -0.5, -0.1], -1.0, 3)],
)
def test_the_turn_that_crosses_is_the_last_and_is_trained(play, scores, threshold, turns) -> None:
    def values(episode, turn):
        return scores[turn.index] if turn.index < len(scores) else -100.0

    settings = StrideSettings(stop={"lambda": threshold}, **NO_BUFFER)
    played = play(settings, scoring=ScriptedScoring(values), script=never_done, tasks=1)
    expected = turns if math.fsum(scores[:turns]) < threshold else turns + 1
    assert len(played.groups[0].episodes[0].turns) == len(played.rows) == expected


def test_reused_turns_keep_their_score_and_are_not_asked_again(stepper) -> None:
    teacher = ScriptedScoring(by_step({0: [-0.1, -0.5, -0.6, -0.9], 1: [-0.2]}))
    run = stepper(stride(), scoring=teacher, script=never_done, tasks=toy_suite().tasks("train")[:1])
    run.step()
    teacher.asked.clear()
    (episode,) = run.step().groups[0].episodes
    assert [turn.scores["teacher"][0] for turn in episode.turns[:3]] == [-0.1, -0.5, -0.2]
    asked = [index for _, indices in teacher.asked for index in indices]
    assert asked == list(range(2, len(episode.turns)))


def test_scores_of_a_moving_teacher_are_taken_again(stepper) -> None:
    teacher = ScriptedScoring(by_step({0: [-0.1, -0.5, -0.6, -0.9], 1: [-0.2]}), frozen=False)
    run = stepper(stride(), scoring=teacher, script=never_done, tasks=toy_suite().tasks("train")[:1])
    run.step()
    (episode,) = run.step().groups[0].episodes
    assert sum(turn.reused for turn in episode.turns) == 2
    assert {turn.scores["teacher"][0] for turn in episode.turns} == {-0.2}


def test_several_rollouts_keep_the_largest_run_and_then_the_latest(stepper) -> None:
    runs = {
        "0": [-0.1, -0.2, -0.9],
        "1": [-0.3, -0.2, -0.5, -0.9],
        "2": [-0.1, -0.5, -0.4, -0.9],
        "3": [-0.9],
    }
    teacher = ScriptedScoring(lambda e, t: runs[e.id[-1]][min(t.index, len(runs[e.id[-1]]) - 1)])
    run = stepper(
        stride(threshold=-20.0, group=4),
        scoring=teacher,
        script=never_done,
        tasks=toy_suite().tasks("train")[:1],
    )
    first = run.step()
    assert first.tally["window/k_star"] == 2  # rollout 2: the latest of those with three correct turns
    source = first.groups[0].episodes[2]
    for episode in run.step().groups[0].episodes:
        assert episode.forked_from.episode == source.id
        assert episode.turns[0].response_ids == source.turns[0].response_ids


def recorded(scores: list[float], reused: int = 0) -> Episode:
    turns = [
        Turn(
            i,
            Observation(f"o{i}"),
            response_ids=(1,),
            logprobs=(-1.0,),
            reused=i < reused,
            scores={"teacher": (s,)},
        )
        for i, s in enumerate(scores)
    ]
    return Episode(
        "e", Task("t", "toy"), turns, StopReason.OUT_OF_SUPPORT, final_observation=Observation("end")
    )


@pytest.mark.parametrize(
    ("scores", "alpha", "turn"),
    [
        ([-0.5, -0.75, -0.6, -0.9, -0.4], -0.8, 2),
        ([-0.5, -0.75, -0.6, -0.9, -0.4], None, 4),
        ([-0.5, -0.5, -0.6], -0.8, 3),
        ([-0.9, -0.1], -0.8, None),
        ([-0.8, -0.1], -0.8, None),
        ([-0.6, -0.6, -0.5], -0.8, None),
        ([-0.7], -0.8, None),
    ],
)
def test_restarts_of_the_worked_numbers(scores, alpha, turn) -> None:
    buffer = PrefixBuffer(RestartSettings(alpha=alpha), Tally())
    buffer.update(Task("t", "toy"), [recorded([-0.1, -0.2, -0.1])])
    assert buffer.start(Task("t", "toy")).turn == 1
    buffer.update(Task("t", "toy"), [recorded(scores)])
    start = buffer.start(Task("t", "toy"))
    assert (start.turn + 1 if start else None) == turn
    if start:
        assert start.episode.final_observation.text == f"o{start.turn}"
        assert len(start.episode.turns) == start.turn


def test_repeated_restarts_are_counted() -> None:
    tally = Tally()
    buffer = PrefixBuffer(RestartSettings(), tally)
    buffer.update(Task("t", "toy"), [recorded([-0.1, -0.3, -0.2])])
    buffer.update(Task("t", "toy"), [recorded([-0.1, -0.7, -0.6, -0.2], reused=2)])
    counted = tally.take()
    assert counted["restarts_repeated"] == 1
    assert counted["restarts_in_reused"] == 0.5


def test_a_prefix_that_cannot_be_reproduced_is_dropped_and_the_task_played_anew(stepper) -> None:
    teacher = ScriptedScoring(by_step({0: [-0.1, -0.5, -0.6, -0.9], 1: [-0.2]}))
    suite = replay_suite()
    tasks = suite.tasks("train")[:1]
    run = stepper(stride(), scoring=teacher, script=never_done, suite=suite, tasks=tasks)
    run.step()
    (entry,) = run.method.buffer._entries.values()
    entry.episode.turns[1].observation = replace(entry.episode.turns[1].observation, text="another room")
    played = run.step()
    (episode,) = played.groups[0].episodes
    assert played.tally["restore_failed/restore_mismatch"] == 1
    assert played.tally["prefixes_dropped"] == 1
    assert not any(turn.reused for turn in episode.turns)
    assert episode.turns


def test_early_stopped_rollouts_have_no_outcome(play) -> None:
    settings = StrideSettings(group=4, stop={"lambda": -1.0}, **NO_BUFFER)
    played = play(settings, scoring=ScriptedScoring(lambda e, t: -0.01 if e.id.endswith("/0") else -2.0))
    metrics = rollout_metrics(played.groups)
    stopped = [e for g in played.groups for e in g.episodes if e.stop == StopReason.OUT_OF_SUPPORT]
    assert stopped
    assert all(e.success is None for e in stopped)
    ended = [e for g in played.groups for e in g.episodes if e.stop.has_outcome]
    assert metrics["success"] == np.mean([e.success for e in ended])
    assert played.tally["stopped"] == len(stopped) / 12


def test_teacher_equal_to_student_gives_exactly_zero(stepper) -> None:
    run = stepper(stride(threshold=-3.0), scoring=ScriptedScoring())
    for _ in range(3):
        assert not any(row.advantages.any() for row in run.step().rows)


def test_saved_turns_and_tokens_are_counted(stepper) -> None:
    teacher = ScriptedScoring(by_step({0: [-0.1], 1: [-0.1, -0.5, -0.6, -0.9], 2: [-0.2]}))
    run = stepper(
        stride(threshold=-3.0), scoring=teacher, script=never_done, tasks=toy_suite().tasks("train")[:1]
    )
    whole, stopped = run.step(), run.step()
    assert whole.tally["saved/turns"] == 0
    played = len(stopped.groups[0].episodes[0].turns)
    assert stopped.tally["saved/turns"] == 20 - played
    assert stopped.tally["saved/tokens"] == pytest.approx((20 - played) * (len(never_done("", 0)) + 1))
    assert run.step().tally["window/reused"] == 2


@pytest.mark.parametrize("suite", [toy_suite, replay_suite])
def test_state_survives_json_and_goes_on_as_if_nothing_had_happened(stepper, suite) -> None:
    def values(episode, turn):
        return -0.2 - (hash((episode.task.seed, turn.index, turn.response_ids)) % 97) / 100

    settings = stride(group=2, stop={"lambda": "auto", "calibration": {"episodes": 2, "turns": 3.0}})
    whole = stepper(settings, scoring=ScriptedScoring(values), suite=suite())
    for _ in range(5):
        expected = whole.step()
    half = stepper(settings, scoring=ScriptedScoring(values), suite=suite())
    for _ in range(3):
        half.step()
    rest = stepper(settings, scoring=ScriptedScoring(values), suite=suite())
    rest.method.load_state_dict(json.loads(json.dumps(half.method.state_dict())))
    rest.steps = 3
    for _ in range(2):
        got = rest.step()
    assert whole.method.state_dict() == rest.method.state_dict()
    assert [r.response_ids for r in got.rows] == [r.response_ids for r in expected.rows]
    assert [r.advantages.tobytes() for r in got.rows] == [r.advantages.tobytes() for r in expected.rows]
    timeless = [{k: v for k, v in p.tally.items() if not k.startswith("seconds")} for p in (got, expected)]
    assert timeless[0] == timeless[1]
    assert got.tally["lambda/default"] < 0
    assert got.tally["prefixes"] > 0


def test_a_failing_teacher_never_stops_an_episode(play) -> None:
    def values(episode, turn):
        raise TeacherError(TeacherFailure.UNREACHABLE, "away")

    played = play(StrideSettings(stop={"lambda": -1.0}), scoring=ScriptedScoring(values))
    assert played.rows == []
    assert played.tally["stopped"] == 0
    assert played.tally["dropped_tokens/teacher_failed"] == played.sampled


def test_one_slow_teacher_does_not_change_results(play) -> None:
    def values(episode, turn):
        return -0.4 - turn.index / 10

    settings = StrideSettings(group=3, stop={"lambda": -2.0}, **NO_BUFFER)
    plain = play(settings, scoring=ScriptedScoring(values))
    slow = play(settings, scoring=ScriptedScoring(values, remote=True, delay=0.002))
    assert [r.response_ids for r in plain.rows] == [r.response_ids for r in slow.rows]


def saying(text: str):
    """A script that is asked again for each piece of a turn and goes on from what it said."""
    return lambda prompt, seed: text[len(prompt.rsplit("[assistant]", 1)[1]) :]


class TestTokens:
    """The unit of single-turn tasks."""

    @staticmethod
    def settings(piece: int, threshold: float = -1.05) -> StrideSettings:
        return StrideSettings(stop={"lambda": threshold, "unit": "token", "piece": piece}, **NO_BUFFER)

    @pytest.mark.parametrize("piece", [1, 4, 10, 11, 12, 1000])
    def test_trains_up_to_the_token_that_crosses_and_samples_little_more(self, stepper, piece) -> None:
        teacher = ScriptedScoring(lambda e, t: -0.1)
        run = stepper(self.settings(piece), scoring=teacher, suite=toy_suite(max_turns=1))
        played = run.step()
        assert {len(row.response_ids) for row in played.rows} == {11}
        for group in played.groups:
            (turn,) = group.episodes[0].turns
            whole = len(turn.response_ids) if piece == 1000 else -(-11 // piece) * piece
            assert len(turn.response_ids) == min(whole, len(turn.response_ids))
            assert len(turn.response_ids) == len(turn.logprobs) == len(turn.scores["advantage"])
            assert not any(turn.scores["advantage"][11:])
            if piece < 1000:
                assert group.episodes[0].stop == StopReason.OUT_OF_SUPPORT
        extra = played.sampled - 11 * len(played.rows)
        assert played.tally["dropped_tokens/out_of_support"] == extra
        assert played.tally["scored_tokens"] == played.sampled  # no token is scored twice

    def test_pieces_that_are_never_cut_make_an_ordinary_turn(self, stepper) -> None:
        text = "<action>go left</action>"
        script = saying(text)
        suite = toy_suite(max_turns=3)
        whole = stepper(OPDSettings(), scoring=ScriptedScoring(lambda e, t: -1.0), suite=suite, script=script)
        ours = stepper(
            self.settings(5, -1e6), scoring=ScriptedScoring(lambda e, t: -1.0), suite=suite, script=script
        )
        a, b = whole.step(), ours.step()
        assert [r.response_ids for r in a.rows] == [r.response_ids for r in b.rows]
        assert [r.turn for r in a.rows] == [r.turn for r in b.rows]
        turns = [t for g in b.groups for e in g.episodes for t in e.turns]
        assert {(t.action, t.response, t.truncated) for t in turns} == {("go left", text, False)}

    def test_several_turns_share_the_budget(self, stepper) -> None:
        run = stepper(
            self.settings(8, -4.05),
            scoring=ScriptedScoring(lambda e, t: -0.1),
            script=saying("I do not know"),
        )
        played = run.step()
        for group in played.groups:
            (episode,) = group.episodes
            assert sum(len(r.response_ids) for r in played.rows if r.episode == episode.id) == 41
            assert len(episode.turns) == 3  # 14 tokens each

    def test_a_failing_teacher_does_not_stop_the_sampling(self, stepper) -> None:
        def values(episode, turn):
            raise TeacherError(TeacherFailure.UNREACHABLE, "away")

        played = stepper(
            self.settings(5), scoring=ScriptedScoring(values), suite=toy_suite(max_turns=1)
        ).step()
        assert played.rows == []
        assert played.tally["stopped"] == 0


class TestCalibration:
    def test_by_the_scores_of_successes_in_each_domain(self, stepper) -> None:
        tasks = [replace(t, domain="ab"[i % 2]) for i, t in enumerate(toy_suite(rooms=2).tasks("train")[:8])]
        teacher = ScriptedScoring(lambda e, t: {"a": -0.5, "b": -0.25}[e.task.domain])
        settings = StrideSettings(
            group=4, stop={"lambda": "auto", "calibration": {"episodes": 3, "turns": 4}}
        )
        run = stepper(settings, scoring=teacher, suite=toy_suite(rooms=2), tasks=tasks)
        first = run.step()
        assert first.tally["stopped"] == 0
        assert first.tally["lambda/a"] == pytest.approx(-2.0)
        assert first.tally["lambda/b"] == pytest.approx(-1.0)
        later = run.step().tally
        assert later["stopped"] == pytest.approx((later["stopped/a"] + later["stopped/b"]) / 2)
        assert later["stopped"] > 0

    def test_by_the_sums_at_the_first_errors(self, stepper, scripted_teacher) -> None:
        settings = StrideSettings(
            group=2,
            stop={"lambda": "auto", "calibration": {"source": "errors", "episodes": 2, "quantile": 0.5}},
            **NO_BUFFER,
        )
        naming = scripted_teacher(turns=lambda episode: [3])
        run = stepper(settings, scoring=ScriptedScoring(lambda e, t: -0.5), teacher=naming, script=never_done)
        assert run.step().tally["lambda/default"] == pytest.approx(-2.0)

    def test_errors_need_someone_who_names_them(self) -> None:
        settings = StrideSettings(stop={"lambda": "auto", "calibration": {"source": "errors"}})
        with pytest.raises(ConfigError, match=r"teacher\.kind"):
            settings.check(toy_suite().capabilities, Teachers(scoring={"": ScriptedScoring()}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"stop": {"lambda": 0.0}}, "lambda is 0.0"),
        ({"stop": {"lambda": 1.0}}, "set a number below 0"),
        ({"stop": {"lambda": -1.0, "threshold": -3.0}}, "two names of one setting"),
        ({"stop": {"lambda": "never"}}, "threshold"),
        ({"restart": {"alpha": 0.0}}, "alpha is 0.0"),
        ({"stop": {"lambda": -9.0, "unit": "token"}}, "restart: null"),
        ({"stop": {"lambda": "auto", "unit": "token"}, "restart": None}, "calibrated on turns"),
        ({"stop": {"lamda": -1.0}}, "unknown setting"),
    ],
)
def test_settings_that_cannot_work(data, message) -> None:
    with pytest.raises(ValidationError, match=message):
        StrideSettings.model_validate(data)


def test_requirements_are_checked_before_a_run() -> None:
    with pytest.raises(ConfigError, match=r"set scoring\.kind"):
        StrideSettings().check(toy_suite().capabilities, Teachers())
    scoring = Teachers(scoring={"": ScriptedScoring()})
    with pytest.raises(ConfigError, match=r"method\.restart to null"):
        StrideSettings().check(stochastic_suite().capabilities, scoring)
    StrideSettings(restart=None).check(stochastic_suite().capabilities, scoring)


def test_minus_infinity_survives_the_resolved_config() -> None:
    settings = StrideSettings.model_validate({"stop": {"lambda": -math.inf}})
    assert StrideSettings.model_validate(settings.model_dump(mode="json")) == settings
