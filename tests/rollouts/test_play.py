from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from turnpoint.prompts import PromptSettings
from turnpoint.records import Attempt, Episode, Step, StopReason
from turnpoint.rollouts import RolloutSettings, Start
from turnpoint.testing import (
    ToyEnv,
    ToySettings,
    ToySuite,
    crashing_suite,
    hanging_suite,
    replay_suite,
    toy_suite,
)
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import EOS, ScriptedPolicy


def essence(episode: Episode) -> object:
    return (
        episode.id,
        episode.stop,
        episode.success,
        [(t.prompt_ids, t.response_ids, t.executed, t.reward) for t in episode.turns],
    )


def play(suite, count=4, tasks=3, policy=None, **kwargs):
    policy = policy or ScriptedPolicy(random_agent(invalid=0.1))
    rollouts, _ = make_rollouts(suite, policy, **kwargs)

    async def go():
        chosen = suite.tasks("train")[:tasks]
        return await asyncio.gather(*(rollouts.play(task, i) for task in chosen for i in range(count)))

    return asyncio.run(go()), rollouts


def test_every_episode_ends_with_a_reason_and_consistent_turns() -> None:
    episodes, _ = play(toy_suite())
    for episode in episodes:
        assert episode.stop in (StopReason.SUCCESS, StopReason.MAX_TURNS)
        assert episode.success is (episode.stop == StopReason.SUCCESS)
        assert [turn.index for turn in episode.turns] == list(range(len(episode.turns)))
        for turn in episode.turns:
            assert len(turn.logprobs) == len(turn.response_ids)
            assert turn.response_ids[-1] == EOS
            assert turn.executed == (turn.action or "")
    assert any(not turn.valid for episode in episodes for turn in episode.turns)


class Graded(ToyEnv):
    """Half of the task is done until all of it is."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return replace(step, score=1.0 if step.success else 0.5)


def test_the_score_after_the_last_turn_is_the_episodes() -> None:
    episodes, _ = play(ToySuite(ToySettings(rooms=2, max_turns=8), Graded))
    assert {(e.stop, e.score) for e in episodes} == {(StopReason.SUCCESS, 1.0), (StopReason.MAX_TURNS, 0.5)}
    plain, _ = play(toy_suite())
    assert {episode.score for episode in plain} == {None}


def test_results_do_not_depend_on_how_many_calls_finish_together() -> None:
    whole, _ = play(toy_suite(), policy=ScriptedPolicy(random_agent()))
    for batch in (1, 3):
        parts, _ = play(toy_suite(), policy=ScriptedPolicy(random_agent(), batch=batch))
        assert [essence(e) for e in parts] == [essence(e) for e in whole]


def test_results_do_not_depend_on_concurrency_or_threads() -> None:
    whole, _ = play(toy_suite())
    for settings in (
        RolloutSettings(max_response_tokens=200, concurrent=2),
        RolloutSettings(max_response_tokens=200, env_seconds=20),
    ):
        other, _ = play(toy_suite(), rollout=settings)
        assert [essence(e) for e in other] == [essence(e) for e in whole]


def test_calls_are_batched() -> None:
    calls = []

    class Counting(ScriptedPolicy):
        def advance(self):
            calls.append(len(self._queue))
            return super().advance()

    play(toy_suite(), policy=Counting(random_agent()))
    assert calls[0] == 12


def test_chat_history_extends_and_window_history_does_not() -> None:
    chat, _ = play(toy_suite(), count=1, tasks=1)
    turns = chat[0].turns
    assert len(turns) > 2
    for before, after in pairwise(turns):
        grown = before.prompt_ids + before.response_ids
        assert after.prompt_ids[: len(grown)] == grown
    window, _ = play(toy_suite(), count=1, tasks=1, prompt=PromptSettings(history=2))
    assert all(len(turn.messages) == 1 for turn in window[0].turns)


@pytest.mark.parametrize("make", [toy_suite, replay_suite])
def test_restart_reuses_the_prefix_and_reaches_the_same_state(make) -> None:
    suite = make()
    (parent, *_), rollouts = play(suite, count=1, tasks=1)
    turn = len(parent.turns) // 2

    async def again():
        return await rollouts.play(
            parent.task, 0, start=Start(parent, turn), attempt=Attempt(1, ("look first",)), name="retry"
        )

    child = asyncio.run(again())
    assert child.forked_from is not None
    assert child.forked_from.turn == turn
    assert [t.executed for t in child.turns[:turn]] == [t.executed for t in parent.turns[:turn]]
    assert [t.reused for t in child.turns] == [True] * turn + [False] * (len(child.turns) - turn)
    assert child.turns[turn].observation == parent.turns[turn].observation
    assert "look first" in child.turns[turn].messages[0].content
    assert len(child.turns) <= rollouts.max_turns


def test_a_start_that_cannot_be_reproduced_is_a_record() -> None:
    suite = replay_suite()
    (parent, *_), rollouts = play(suite, count=1, tasks=1)
    parent.turns[1].observation = type(parent.turns[1].observation)("something else", (), None)
    child = asyncio.run(rollouts.play(parent.task, 0, start=Start(parent, 2), name="retry"))
    assert child.stop == StopReason.RESTORE_MISMATCH
    assert child.success is None
    assert child.new_turns == []


def test_stop_rule_and_depth_leave_no_outcome() -> None:
    suite = toy_suite()
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(lambda prompt, seed: "<action>wait</action>"))
    task = suite.tasks("train")[0]

    async def after_two(episode: Episode) -> StopReason | None:
        return StopReason.OUT_OF_SUPPORT if len(episode.turns) == 2 else None

    stopped = asyncio.run(rollouts.play(task, 0, after_turn=after_two))
    assert (stopped.stop, stopped.success, len(stopped.turns)) == (StopReason.OUT_OF_SUPPORT, None, 2)
    capped = asyncio.run(rollouts.play(task, 0, depth=3))
    assert (capped.stop, capped.success, len(capped.turns)) == (StopReason.DEPTH_CAP, None, 3)


def test_faults_end_one_episode_and_not_the_others() -> None:
    episodes, _ = play(crashing_suite(fault_every=2), tasks=4, count=1)
    stops = [episode.stop for episode in episodes]
    assert StopReason.ENV_ERROR in stops
    assert any(stop in (StopReason.SUCCESS, StopReason.MAX_TURNS) for stop in stops)
    broken = next(e for e in episodes if e.stop == StopReason.ENV_ERROR)
    assert "RuntimeError" in broken.error
    assert broken.success is None


def test_a_hanging_environment_is_timed_out() -> None:
    suite = hanging_suite(hang_seconds=600, fault_every=2)
    settings = RolloutSettings(max_response_tokens=200, env_seconds=2)
    episodes, _ = play(suite, tasks=2, count=1, rollout=settings)
    assert [e.stop for e in episodes].count(StopReason.TIME_OUT) == 1


def test_a_prompt_that_does_not_fit_ends_the_episode() -> None:
    policy = ScriptedPolicy(lambda prompt, seed: "<action>wait</action>", context_length=2500)
    episodes, _ = play(toy_suite(), tasks=1, count=1, policy=policy)
    assert episodes[0].stop == StopReason.CONTEXT_LIMIT
    assert episodes[0].turns
    assert "prompt" in episodes[0].error


def test_measured_distances() -> None:
    episodes, _ = play(toy_suite(), measure=True)
    for episode in episodes:
        assert episode.distances_known
        if episode.success:
            assert episode.final_distance == 0
