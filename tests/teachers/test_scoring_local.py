"""A real model as the scoring teacher: same scores however it is asked, new tokens only, no foreign tokenizers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from turnpoint.config import ConfigError  # noqa: E402
from turnpoint.methods import Teachers  # noqa: E402
from turnpoint.methods.opd import OPDSettings  # noqa: E402
from turnpoint.methods.stride import StrideSettings  # noqa: E402
from turnpoint.policy import ScoreRequest  # noqa: E402
from turnpoint.policy.local import LocalPolicy  # noqa: E402
from turnpoint.policy.settings import LocalPolicySettings  # noqa: E402
from turnpoint.rollouts import Scorer  # noqa: E402
from turnpoint.teachers import TeacherError, TeacherFailure  # noqa: E402
from turnpoint.teachers.scoring.local import LocalScoringSettings  # noqa: E402

from .tiny import play, rollouts_of, student_of, words, write_model  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    make = tmp_path_factory.mktemp
    swapped = words()
    swapped[5], swapped[6] = swapped[6], swapped[5]
    return {
        "student": write_model(make("student"), 0),
        "teacher": write_model(make("teacher"), 1),
        "other": write_model(make("other"), 2),
        "swapped": write_model(make("swapped"), 1, vocabulary=swapped),
        "lowercase": write_model(make("lowercase"), 1, lowercase=True),
        "short": write_model(make("short"), 1, max_position_embeddings=64),
    }


def policy_of(folders: dict[str, Path], **changes) -> LocalPolicy:
    return LocalPolicy(LocalPolicySettings(model=str(folders["student"]), device="cpu", **changes), seed=0)


def teacher_of(folders, student, name="teacher", **changes):
    return LocalScoringSettings(model=folders[name], device="cpu", **changes).build(student)


def score_all(teacher, episodes):
    """Scores of every turn, all episodes at once."""

    async def go():
        return await asyncio.gather(*(teacher.score(e, e.turns) for e in episodes))

    return asyncio.run(go())


def score_live(teacher, episodes):
    """Scores of every turn, each asked for when it was the newest."""

    async def follow(episode):
        scores = []
        for n in range(1, len(episode.turns) + 1):
            now = replace(episode, stop=None, turns=episode.turns[:n])
            scores += await teacher.score(now, now.turns[-1:])
        return scores

    async def go():
        return await asyncio.gather(*(follow(e) for e in episodes))

    return asyncio.run(go())


@pytest.mark.parametrize("cache_rows", [2, 128])
def test_live_scores_equal_whole_scores(folders, cache_rows) -> None:
    student = student_of(policy_of(folders))
    episodes = play(student)
    live = score_live(teacher_of(folders, student, cache_rows=cache_rows), episodes)
    whole = score_all(teacher_of(folders, student), episodes)
    alone = LocalPolicy(LocalPolicySettings(model=str(folders["teacher"]), device="cpu"), seed=0)
    for episode, one, other in zip(episodes, live, whole, strict=True):
        for turn, a, b in zip(episode.turns, one, other, strict=True):
            assert a.token_ids == b.token_ids == turn.response_ids
            assert a.start == b.start == len(turn.prompt_ids)
            (expected,) = alone.logprobs([ScoreRequest(turn.prompt_ids, turn.response_ids)])
            np.testing.assert_allclose(a.logprobs, expected, atol=2e-5)
            np.testing.assert_allclose(b.logprobs, expected, atol=2e-5)


def test_a_growing_conversation_is_read_once(folders) -> None:
    student = student_of(policy_of(folders))
    episodes = play(student)
    teacher = teacher_of(folders, student)
    score_live(teacher, episodes)
    last = [e.turns[-1] for e in episodes]
    whole = sum(len(t.prompt_ids) + len(t.response_ids) for t in last)
    assert teacher.metrics()["read_tokens"] <= whole
    again = sum(len(t.prompt_ids) for e in episodes for t in e.turns)
    assert again > 2 * whole  # what asking for each turn without a cache would read


def test_pieces_of_a_turn_are_scored_one_after_another(folders) -> None:
    student = student_of(policy_of(folders))
    (episode, *_) = play(student, tokens=20)
    teacher, whole = teacher_of(folders, student), teacher_of(folders, student)
    turn = max(episode.turns, key=lambda t: len(t.response_ids))
    count = len(turn.response_ids)
    assert count > 4

    async def go():
        values = []
        for stop in (2, 3, count):
            now = replace(turn, response_ids=turn.response_ids[:stop])
            (score,) = await teacher.score(replace(episode, stop=None), [now], len(values))
            assert score.start == len(turn.prompt_ids) + len(values)
            values += score.logprobs.tolist()
        return values, (await whole.score(episode, [turn]))[0]

    pieces, expected = asyncio.run(go())
    np.testing.assert_allclose(pieces, expected.logprobs, atol=2e-5)
    # Each piece reads its own tokens and the one before them again, for the state that predicts the first.
    assert teacher.metrics()["read_tokens"] == len(turn.prompt_ids) + count + 2


def test_episodes_that_are_ready_together_share_a_batch(folders) -> None:
    student = student_of(policy_of(folders))
    episodes = play(student, tasks=6)
    teacher = teacher_of(folders, student)
    score_all(teacher, episodes)
    assert teacher.metrics()["batches"] == 1
    small = teacher_of(folders, student, batch=4)
    score_all(small, episodes)
    assert small.metrics()["batches"] == 2


def test_one_token_responses(folders) -> None:
    student = student_of(policy_of(folders))
    episodes = play(student, tokens=1)
    assert {len(t.response_ids) for e in episodes for t in e.turns} == {1}
    teacher = teacher_of(folders, student, "student")
    for episode, scores in zip(episodes, score_live(teacher, episodes), strict=True):
        for turn, score in zip(episode.turns, scores, strict=True):
            np.testing.assert_allclose(score.logprobs, turn.logprobs, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "message"), [("swapped", "token '.*' is id 5 for the student, id 6"), ("lowercase", "the text")]
)
def test_another_tokenizer_is_refused(folders, name, message) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        teacher_of(folders, student_of(policy_of(folders)), name)
    assert "another tokenizer" in str(error.value)
    assert "same model family" in str(error.value)


def test_a_folder_that_cannot_work_is_named_by_its_own_setting(folders, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"scoring\.model is"):
        LocalScoringSettings(model=tmp_path / "none").build(student_of(policy_of(folders)))


def test_too_long_episodes_cost_their_score_only(folders) -> None:
    student = student_of(policy_of(folders))
    (episode, *_) = play(student)
    teacher = teacher_of(folders, student, "short")
    with pytest.raises(TeacherError) as error:
        score_all(teacher, [episode])
    assert error.value.reason == TeacherFailure.BUDGET
    assert teacher.metrics()["failures/budget"] == 1


def step(folders, settings, teacher_name, *, lr=1e-2):
    """Rows and update metrics of one step, and the policy after it."""
    policy = policy_of(folders, optimizer={"lr": lr})
    student = student_of(policy)
    teachers = Teachers(scoring={"": teacher_of(folders, student, teacher_name)})
    rollouts = rollouts_of(student)
    method = settings.build()
    scorer = Scorer(policy, student.prompter, student.renderer)

    async def go():
        groups = await method.collect(student.suite.tasks("train")[:3], rollouts, teachers)
        return await method.credit(groups, scorer, teachers)

    rows = asyncio.run(go())
    return rows, policy.update(rows), {k: v.clone() for k, v in policy.network.model.state_dict().items()}


@pytest.mark.parametrize("settings", [OPDSettings(group=2), StrideSettings(stop={"lambda": -1e6}, group=2)])
def test_teacher_of_the_same_weights_gives_no_advantage(folders, settings) -> None:
    rows, _, _ = step(folders, settings, "student")
    assert rows
    assert max(np.abs(row.advantages).max() for row in rows) < 1e-4


def test_the_gradient_moves_when_only_the_teacher_moves(folders) -> None:
    first, same, other = (
        step(folders, OPDSettings(group=2), name) for name in ("teacher", "teacher", "other")
    )
    assert [r.response_ids for r in first[0]] == [r.response_ids for r in other[0]]
    assert first[1]["grad_norm"] == same[1]["grad_norm"] > 0
    assert first[1]["grad_norm"] != other[1]["grad_norm"]
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(first[2][name], same[2][name])
    assert not torch.equal(first[2][name], other[2][name])


def test_stride_scores_live_what_opd_scores_whole(folders) -> None:
    opd, _, _ = step(folders, OPDSettings(), "teacher")
    ours, _, _ = step(folders, StrideSettings(stop={"lambda": -1e6}, restart=None), "teacher")
    for a, b in zip(opd, ours, strict=True):
        assert a.response_ids == b.response_ids
        np.testing.assert_allclose(a.advantages, b.advantages, atol=2e-5)


def test_distillation_makes_the_teachers_words_likelier(folders) -> None:
    """Two dozen steps bring the student's distribution nearer to the teacher's."""
    policy = policy_of(folders, optimizer={"lr": 1e-2})
    student = student_of(policy)
    teacher = teacher_of(folders, student)
    method = OPDSettings(group=8).build()
    teachers = Teachers(scoring={"": teacher})
    scorer = Scorer(policy, student.prompter, student.renderer)
    gaps = []
    for number in range(25):
        rollouts = rollouts_of(student, turns=1)
        rollouts.prefix = f"s{number}"

        async def go(rollouts=rollouts):
            groups = await method.collect(student.suite.tasks("train")[:6], rollouts, teachers)
            return await method.credit(groups, scorer, teachers)

        rows = asyncio.run(go())
        gaps.append(-method.tally.take()["teacher_gap"])
        policy.update(rows)
    assert np.mean(gaps[-3:]) < 0.65 * np.mean(gaps[:3])
