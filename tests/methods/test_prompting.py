from __future__ import annotations

import asyncio

import pytest

from turnpoint.config import ConfigError
from turnpoint.methods import PlaysAttempts, Teachers
from turnpoint.methods.prompting import FullRetrySettings, ReActSettings, ReflexionSettings
from turnpoint.policy import PolicyCapabilities
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.prompts import PromptSettings, reflection_reply
from turnpoint.testing import crashing_suite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy

ALL = (ReActSettings, ReflexionSettings, FullRetrySettings)
HARD = {"rooms": 5, "max_turns": 3}
"""Nobody solves it."""


def agent(prompt: str, seed: int) -> str:
    """Acts at random; asked for a remark, it leaves one that names the attempt."""
    if "leave a remark" in prompt.rsplit("[user]", 1)[-1]:
        return reflection_reply(None, f"remark of call {seed}")
    return random_agent()(prompt, seed)


def chain(settings, *, count=4, suite=None, script=agent, index=0, task=0):
    suite = suite or toy_suite(**HARD)
    policy = ScriptedPolicy(script)
    rollouts, _ = make_rollouts(suite, policy, prompt=PromptSettings(history=2))
    method = settings.build()
    assert isinstance(method, PlaysAttempts)
    episodes = asyncio.run(method.attempts(suite.tasks("valid")[task], index, rollouts, count))
    assert method.tally.take() == {}
    return episodes, policy, rollouts


@pytest.mark.parametrize("kind", ALL)
def test_chains_start_anew_up_to_the_count(kind) -> None:
    episodes, _, _ = chain(kind())
    assert [e.attempt.index for e in episodes] == [0, 1, 2, 3]
    assert len({e.id for e in episodes}) == 4
    assert len({e.attempt.chain for e in episodes}) == 1
    assert all(e.forked_from is None and not any(t.reused for t in e.turns) for e in episodes)


@pytest.mark.parametrize("kind", ALL)
def test_a_success_ends_the_chain(kind) -> None:
    lengths = set()
    for task in range(6):
        episodes, _, _ = chain(kind(), suite=toy_suite(rooms=2, max_turns=12), task=task)
        assert not any(e.success for e in episodes[:-1])
        assert episodes[-1].success or len(episodes) == 4
        lengths.add(len(episodes))
    assert len(lengths) > 1


@pytest.mark.parametrize("kind", ALL)
def test_first_attempts_are_equal_for_all_methods(kind) -> None:
    episodes, _, rollouts = chain(kind(), count=1)
    alone = asyncio.run(rollouts.play(rollouts.suite.tasks("valid")[0], 0))
    assert [t.response_ids for t in episodes[0].turns] == [t.response_ids for t in alone.turns]


@pytest.mark.parametrize("memory", [1, 2, 3])
def test_reflexion_remembers_the_last_reflections(memory) -> None:
    episodes, policy, _ = chain(ReflexionSettings(memory=memory), count=6)
    said = [e.reflection.remark for e in episodes[:-1]]
    assert len(set(said)) == 5
    assert episodes[-1].reflection is None
    for n, episode in enumerate(episodes):
        expected = tuple(said[max(0, n - memory) : n])
        assert episode.attempt.remarks == expected
        prompt = policy.tokenizer.decode(episode.turns[0].prompt_ids)
        assert [remark for remark in said if remark in prompt] == list(expected)


def test_unreadable_reflections_add_nothing() -> None:
    episodes, _, _ = chain(ReflexionSettings(), script=lambda prompt, seed: "no idea")
    assert len(episodes) == 4
    assert all(e.attempt.remarks == () for e in episodes)


@pytest.mark.parametrize("kind", [ReActSettings, FullRetrySettings])
def test_the_others_remember_nothing(kind) -> None:
    episodes, _, _ = chain(kind())
    assert all(e.attempt.remarks == () and e.reflection is None for e in episodes)
    assert len({e.turns[0].prompt_ids for e in episodes}) == 1
    assert len({tuple(t.response_ids for t in e.turns) for e in episodes}) > 1


def test_a_fault_ends_the_chain() -> None:
    episodes, _, _ = chain(FullRetrySettings(), suite=crashing_suite())
    assert len(episodes) == 1


@pytest.mark.parametrize("kind", ALL)
def test_there_is_nothing_to_train(kind) -> None:
    assert not kind.trains
    assert kind.defaults["train"]["steps"] == 0
    rollouts, scorer = make_rollouts(toy_suite(), ScriptedPolicy(agent))
    method = kind().build()
    with pytest.raises(ConfigError, match=r"train\.steps=0"):
        asyncio.run(method.collect(toy_suite().tasks("train")[:1], rollouts, Teachers()))
    assert asyncio.run(method.credit([], scorer, Teachers())) == []


def test_react_reasons() -> None:
    able = PolicyCapabilities(reference=False, sessions=True, full_distribution=True)
    policy = LocalPolicySettings(model="x")
    assert ReActSettings.defaults["prompt"] == {"reasoning": True}
    ReActSettings().check_backend(policy, able, PromptSettings(reasoning=True))
    with pytest.raises(ConfigError, match=r"prompt\.reasoning=true"):
        ReActSettings().check_backend(policy, able, PromptSettings())
