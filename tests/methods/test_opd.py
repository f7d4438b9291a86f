from __future__ import annotations

import asyncio

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.scoring import score_turns
from turnpoint.methods.tally import Tally
from turnpoint.records import Observation, Task, Turn
from turnpoint.records.episode import Episode
from turnpoint.teachers.protocol import TeacherError, TeacherFailure, TurnScore
from turnpoint.testing import crashing_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring


def test_advantage_is_the_sampled_difference(play) -> None:
    teacher = ScriptedScoring(lambda episode, turn: -0.25)
    played = play(OPDSettings(group=2, coef=0.5), scoring=teacher)
    assert played.rows
    for row in played.rows:
        np.testing.assert_array_equal(row.advantages, 0.5 * (-0.25 - row.old_logprobs))
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled


def test_teacher_equal_to_student_gives_exactly_zero(play) -> None:
    played = play(OPDSettings(group=2), scoring=ScriptedScoring())
    assert played.rows
    assert not any(row.advantages.any() for row in played.rows)


def test_worked_numbers() -> None:
    """Teacher [-.2, -3], student [-.1, -.3] -> A = [-.1, -2.7]."""
    turn = Turn(0, Observation("x"), prompt_ids=(5,), response_ids=(1, 2), logprobs=(-0.1, -0.3))
    episode = Episode("e", Task("t", "toy"), [turn])
    teacher = ScriptedScoring(lambda episode, turn: [-0.2, -3.0])
    assert asyncio.run(score_turns(episode, [turn], teacher, Tally()))
    from turnpoint.methods.scoring import distillation_rows
    from turnpoint.records import Group

    (row,) = distillation_rows([Group(episode.task, [episode])], Tally(), coef=1.0)
    np.testing.assert_allclose(row.advantages, [-0.1, -2.7], atol=1e-15)
    assert turn.scores["advantage"] == tuple(row.advantages.tolist())


def test_every_episode_is_read_once(play) -> None:
    teacher = ScriptedScoring()
    played = play(OPDSettings(group=3), scoring=teacher)
    episodes = {e.id: tuple(t.index for t in e.turns) for g in played.groups for e in g.episodes}
    assert sorted(teacher.asked) == sorted(episodes.items())


def test_a_failed_teacher_costs_the_turns_of_that_episode(play) -> None:
    def values(episode, turn):
        if episode.id.endswith("/1"):
            raise TeacherError(TeacherFailure.TIME_OUT, "late")
        return -1.0

    played = play(OPDSettings(group=2), scoring=ScriptedScoring(values))
    assert played.tally["teacher_failures/time_out"] == 3
    assert {row.episode[-2:] for row in played.rows} == {"/0"}
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/teacher_failed"] == played.sampled
    assert "signal_empty/teacher" not in played.tally


def test_a_teacher_that_scores_nothing_is_said_aloud(play) -> None:
    def dead(episode, turn):
        raise TeacherError(TeacherFailure.UNREACHABLE, "gone")

    played = play(OPDSettings(group=2), scoring=ScriptedScoring(dead))
    assert played.rows == []
    assert played.tally["dropped_tokens/teacher_failed"] == played.sampled > 0
    assert played.tally["signal_empty/teacher"] == 1


def test_broken_episodes_are_counted(play) -> None:
    played = play(OPDSettings(group=2), scoring=ScriptedScoring(), suite=crashing_suite(fault_every=2))
    assert played.tally["dropped_episodes/env_error"] > 0


def test_each_domain_asks_its_own_teacher(stepper) -> None:
    from dataclasses import replace

    from turnpoint.testing import toy_suite

    tasks = [
        replace(t, domain=d) for t, d in zip(toy_suite().tasks("train"), ["air", "shop", ""], strict=False)
    ]
    teachers = {"air": ScriptedScoring(lambda e, t: -1.0), "": ScriptedScoring(lambda e, t: -2.0)}
    played = stepper(OPDSettings(), scoring=teachers, tasks=tasks).step()
    for row in played.rows:
        expected = -1.0 if row.task == tasks[0].id else -2.0
        np.testing.assert_array_equal(row.advantages, expected - row.old_logprobs)


def test_missing_teachers_are_named() -> None:
    with pytest.raises(ConfigError, match=r"set scoring\.kind"):
        OPDSettings().check(None, Teachers())
    with pytest.raises(ConfigError, match=r"scoring\.shop"):
        Teachers(scoring={"air": ScriptedScoring()}).scoring_for(Task("t", "toy", domain="shop"))


class Misaligned(ScriptedScoring):
    def __init__(self, change) -> None:
        super().__init__()
        self.change = change

    def _score(self, episode, turn, first) -> TurnScore:
        good = super()._score(episode, turn, first)
        fields = {
            "turn": good.turn,
            "start": good.start,
            "token_ids": good.token_ids,
            "logprobs": good.logprobs,
        }
        return TurnScore(**{**fields, **self.change(good)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {"logprobs": s.logprobs[:-1]}, "its response has"),
        (lambda s: {"token_ids": s.token_ids[:-1]}, "its response has"),
        (lambda s: {"token_ids": (*s.token_ids[1:], 0)}, "are not the response"),
        (lambda s: {"turn": s.turn + 1}, "is of turn"),
        (lambda s: {"logprobs": s.logprobs * np.nan}, "log-prob of token 0 is nan"),
    ],
)
def test_scores_that_do_not_fit_are_errors_that_name_the_row(play, change, message) -> None:
    with pytest.raises(ValueError, match=rf"row .*toy-\d+/0#\d+.*{message}"):
        play(OPDSettings(), scoring=Misaligned(change))


def test_the_expected_gradient_is_that_of_the_exact_reverse_kl() -> None:
    """Over a toy vocabulary: the mean gradient of the loss with A = log q - log p is the gradient of KL(p || q)."""
    torch = pytest.importorskip("torch")
    from turnpoint.policy.loss import policy_loss

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    teachers = [
        torch.log_softmax(torch.randn(6, generator=generator, dtype=torch.float64), -1) for _ in range(2)
    ]
    gradients = []
    for teacher in teachers:
        student = torch.log_softmax(logits, -1)
        (exact,) = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits)
        expected = torch.zeros(6, dtype=torch.float64)
        for token in range(6):
            logprob = torch.log_softmax(logits, -1)[token : token + 1]
            advantage = (teacher[token] - logprob.detach()).reshape(1)
            loss, _ = policy_loss(logprob, logprob.detach(), advantage, torch.ones(1, dtype=torch.bool))
            (gradient,) = torch.autograd.grad(loss, logits)
            expected += student[token].exp().detach() * gradient
        np.testing.assert_allclose(expected.numpy(), exact.numpy(), atol=1e-6)
        gradients.append(expected)
    assert not torch.allclose(*gradients)
