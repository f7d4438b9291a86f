from __future__ import annotations

import asyncio

import pytest

from turnpoint.prompts import PromptSettings, reflection_reply
from turnpoint.records import Reflection
from turnpoint.rollouts import RolloutSettings, reflect
from turnpoint.testing import toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import EOS, ScriptedPolicy

ANSWER = reflection_reply(1, "Light the lamp.")


def script(prompt: str, seed: int) -> str:
    return ANSWER if "your remark</remark>" in prompt else random_agent()(prompt, seed)


def reflected(*, context: int | None = None, max_tokens: int = 200, pivot: bool = True):
    """A failed attempt, a reflection on it (in a context of so many tokens), and the rollouts."""
    policy = ScriptedPolicy(script)
    rollouts, _ = make_rollouts(
        toy_suite(), policy, rollout=RolloutSettings(max_response_tokens=200, max_turns=4)
    )
    task = rollouts.suite.tasks("train")[0]

    async def go():
        episode = await rollouts.play(task, 0)
        assert not episode.success
        if context is not None:
            policy.context_length = context
        return episode, await reflect(rollouts, episode, pivot=pivot, max_tokens=max_tokens)

    episode, reflection = asyncio.run(go())
    return episode, reflection, rollouts


def test_a_reflection_records_what_was_asked_and_sampled() -> None:
    episode, reflection, rollouts = reflected()
    last = episode.turns[-1]
    assert (reflection.pivot, reflection.remark, reflection.valid) == (1, "Light the lamp.", True)
    assert reflection.response == ANSWER
    assert reflection.response_ids[-1] == EOS
    assert len(reflection.logprobs) == len(reflection.response_ids)
    assert reflection.prompt_ids == rollouts.renderer.prompt_ids(reflection.messages)
    prefix = last.prompt_ids + last.response_ids
    assert reflection.prompt_ids[: len(prefix)] == prefix
    assert rollouts.sampled_tokens == episode.generated_tokens + len(reflection.response_ids)


def test_a_cut_off_reflection_is_invalid() -> None:
    _, reflection, _ = reflected(max_tokens=20)
    assert reflection.truncated
    assert (reflection.pivot, reflection.remark, reflection.valid) == (None, "", False)
    assert len(reflection.response_ids) == 20


def test_without_a_pivot_a_remark_is_enough() -> None:
    _, reflection, _ = reflected(pivot=False)
    assert (reflection.pivot, reflection.valid) == (None, True)


def test_a_full_conversation_is_reflected_on_in_a_message_of_its_own() -> None:
    episode, whole, _ = reflected()
    _, reflection, rollouts = reflected(context=len(whole.prompt_ids) + 199)
    assert reflection.valid
    assert len(reflection.messages) == 1
    assert len(reflection.prompt_ids) < len(whole.prompt_ids)
    assert all(turn.observation.text in reflection.messages[0].content for turn in episode.turns)
    assert rollouts.sampled_tokens == episode.generated_tokens + len(reflection.response_ids)


def test_what_does_not_fit_at_all_is_invalid_and_has_no_tokens() -> None:
    episode, reflection, rollouts = reflected(context=50)
    assert reflection == Reflection(messages=reflection.messages)
    assert rollouts.sampled_tokens == episode.generated_tokens


@pytest.mark.parametrize("history", ["chat", 2])
def test_the_same_attempt_gives_the_same_reflection(history) -> None:
    drawn = []
    for batch in (None, 1):
        policy = ScriptedPolicy(lambda prompt, seed: f"{seed} <action>wait</action>", batch=batch)
        rollouts, _ = make_rollouts(toy_suite(max_turns=3), policy, prompt=PromptSettings(history=history))

        async def go(rollouts=rollouts):
            episodes = await asyncio.gather(
                *(rollouts.play(rollouts.suite.tasks("train")[0], i) for i in range(3))
            )
            return await asyncio.gather(*(reflect(rollouts, episode) for episode in episodes))

        drawn.append([reflection.response for reflection in asyncio.run(go())])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 3
