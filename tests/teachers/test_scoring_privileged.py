from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.opd import OPDSettings
from turnpoint.methods.stride import StrideSettings
from turnpoint.policy import ScoreRequest
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings, assert_unhinted
from turnpoint.teachers.scoring import Student, scoring_registry
from turnpoint.testing import ToySettings, ToySuite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


class ToldSuite(ToySuite):
    """Every second task has a reference text."""

    def _task(self, seed: int):
        task = super()._task(seed)
        if seed % 2:
            return task
        return replace(task, data={**task.data, "reference": f"the key lies in room {task.data['key'] + 1}"})


def step(settings, scoring, *, context_length=100_000):
    suite = ToldSuite(ToySettings())
    policy = ScriptedPolicy(random_agent(), context_length=context_length)
    student = Student(
        policy, Prompter(PromptSettings(), suite.instructions), ChatRenderer(policy.tokenizer), suite
    )
    teacher = scoring_registry.parse(scoring).build(student)
    rollouts, scorer = make_rollouts(suite, policy)
    method, teachers = settings.build(), Teachers(scoring={"": teacher})

    async def go():
        groups = await method.collect(suite.tasks("train")[:4], rollouts, teachers)
        return groups, await method.credit(groups, scorer, teachers)

    groups, rows = asyncio.run(go())
    return groups, rows, teacher, student, method


@pytest.mark.parametrize("place", ["lesson", "hint"])
def test_scores_are_those_of_the_student_with_the_text_in_its_prompt(place) -> None:
    groups, rows, teacher, student, _ = step(OPDSettings(), {"kind": "privileged", "place": place})
    turns = {(e.id, t.index): (e, t) for g in groups for e in g.episodes for t in e.turns}
    told = 0
    for row in rows:
        episode, turn = turns[row.episode, row.turn]
        text = episode.task.data.get("reference")
        if text is None:
            assert not row.advantages.any()
            continue
        told += 1
        prompter = student.prompter
        messages = (
            prompter.with_lesson(turn.messages, prompter.lesson_text(text))
            if place == "lesson"
            else prompter.with_hint(turn.messages, prompter.hint_text(text))
        )
        prompt = student.renderer.prompt_ids(messages)
        (expected,) = student.policy.logprobs([ScoreRequest(prompt, turn.response_ids)])
        np.testing.assert_array_equal(row.advantages, expected - row.old_logprobs)
        assert row.advantages.any()
        assert row.prompt_ids == turn.prompt_ids
        assert_unhinted(turn.messages, [text])
    assert told
    assert teacher.metrics()["scored_tokens"] > 0


def test_without_text_it_is_exactly_the_student() -> None:
    _, rows, _, _, _ = step(StrideSettings(stop={"lambda": -1.0}), "privileged")
    assert {row.task for row in rows if not row.advantages.any()} == {"toy-1", "toy-3"}


def test_a_prompt_that_does_not_fit_costs_its_turns_only() -> None:
    plain = step(OPDSettings(), "privileged")
    longest = max(
        len(t.prompt_ids) + len(t.response_ids) for g in plain[0] for e in g.episodes for t in e.turns
    )
    _, _, teacher, _, method = step(OPDSettings(), "privileged", context_length=longest + 5)
    assert teacher.metrics()["failures/budget"] > 0
    assert method.tally.take()["dropped_tokens/teacher_failed"] > 0


def test_a_key_that_no_task_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"scoring\.key is 'answer'.*chest, key, reference, start"):
        step(OPDSettings(), {"kind": "privileged", "key": "answer"})
