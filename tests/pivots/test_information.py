from __future__ import annotations

import asyncio

import pytest

from turnpoint.pivots import gains_by_turn, information_gain, name_best_actions
from turnpoint.pivots.information import GainsOfTurn, TurnGain
from turnpoint.prompts import PromptSettings
from turnpoint.records import Attempt
from turnpoint.rollouts import Start
from turnpoint.testing import replay_suite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import EOS, ScriptedPolicy


def retried(suite, prompt=None):
    """A failed attempt, its retry from turn 2 with a remark, and what scores them."""
    policy = ScriptedPolicy(random_agent())
    rollouts, scorer = make_rollouts(suite, policy, prompt=prompt)

    async def go():
        for task in suite.tasks("train"):
            first = await rollouts.play(task, 0)
            if len(first.turns) > 3:
                attempt = Attempt(1, ("Light the lamp.",), "c")
                return first, await rollouts.play(task, 0, start=Start(first, 2), attempt=attempt, name="a1")
        raise AssertionError("every attempt was short")

    first, retry = asyncio.run(go())
    return first, retry, scorer, policy


@pytest.mark.parametrize("prompt", [PromptSettings(), PromptSettings(history=2)])
def test_the_gain_is_the_difference_of_log_probs_of_the_gold_action(prompt) -> None:
    suite = toy_suite(rooms=3, max_turns=8)
    first, retry, scorer, policy = retried(suite, prompt)
    for episode in (first, retry):
        name_best_actions(suite.make(), episode, "full")
    gains = asyncio.run(information_gain([first, retry], scorer))
    asked = [turn for turn in retry.turns if turn.gold_actions]
    assert [(g.episode, g.turn, g.reused) for g in gains] == [(retry.id, t.index, t.index < 2) for t in asked]
    assert asked
    for gain, turn in zip(gains, asked, strict=True):
        reply = (*policy.tokenizer.encode(f"<action>{turn.gold_actions[0]}</action>"), EOS)
        totals = []
        for remarks in (("Light the lamp.",), ()):
            messages = scorer.prompter.messages(
                retry.task, retry.turns[: turn.index], turn.observation, remarks=remarks
            )
            totals.append(policy.logprobs([scorer.request(messages, reply)])[0].sum())
        assert gain.plain == pytest.approx(totals[1])
        assert gain.gain == pytest.approx(totals[0] - totals[1])
        assert gain.gain != 0.0


@pytest.mark.parametrize("make_suite", [toy_suite, replay_suite])
def test_best_actions_are_the_oracles_at_every_turn(make_suite) -> None:
    suite = make_suite(rooms=3, max_turns=8)
    first, _, _, _ = retried(suite)
    name_best_actions(suite.make(), first, "full")
    env = suite.make()
    env.reset(first.task)
    for turn in first.turns:
        assert list(turn.gold_actions) == env.best_actions("full")
        env.step(turn.executed)


def test_prompts_that_do_not_fit_are_left_out() -> None:
    suite = toy_suite(rooms=3, max_turns=8)
    _, retry, scorer, _ = retried(suite)
    name_best_actions(suite.make(), retry, "full")
    whole = asyncio.run(information_gain([retry], scorer))
    scorer.policy.context_length = len(retry.turns[3].prompt_ids)
    assert 0 < len(asyncio.run(information_gain([retry], scorer))) < len(whole)
    assert asyncio.run(information_gain([], scorer)) == []


def test_gains_by_turn() -> None:
    gains = [
        TurnGain("e", 2, 0.4, -1, False),
        TurnGain("f", 2, -0.2, -1, False),
        TurnGain("f", 0, 0.1, -1, True),
    ]
    assert gains_by_turn(gains, 0.1) == [
        GainsOfTurn(0, 0.1, 0.0, 1),
        GainsOfTurn(2, pytest.approx(0.1), 0.5, 2),
    ]
    assert gains_by_turn([]) == []
