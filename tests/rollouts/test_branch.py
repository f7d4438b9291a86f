from __future__ import annotations

import asyncio

import pytest

from turnpoint.envs.replay import ReplayMismatch
from turnpoint.records import EpisodeKind, StopReason
from turnpoint.testing import replay_suite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


@pytest.fixture(params=["snapshots", "replay"])
def parent(request):
    suite = toy_suite() if request.param == "snapshots" else replay_suite()
    rollouts, scorer = make_rollouts(suite, ScriptedPolicy(random_agent()))
    episode = asyncio.run(rollouts.play(suite.tasks("train")[0], 0))
    assert len(episode.turns) > 4
    return rollouts, scorer, episode


def test_a_branch_goes_on_from_the_state_after_the_turn(parent) -> None:
    rollouts, scorer, episode = parent

    async def go():
        branch = rollouts.branch(episode, 3, name="recovery-2")
        for _ in range(2):
            hint = rollouts.prompter.hint_text(branch.observation.admissible[-1])
            turn = await branch.sample(hint)
            branch.keep(turn)
            if not await branch.step():
                break
        return branch.close()

    branch = asyncio.run(go())
    first = branch.turns[0]
    assert (branch.kind, branch.stop) == (EpisodeKind.RECOVERY, StopReason.BRANCH_END)
    assert first.observation == episode.turns[3].observation
    assert first.index == 3
    assert first.executed == first.observation.admissible[-1]
    assert first.hint not in "".join(m.content for m in first.messages)
    plain = scorer.plain(first)
    assert plain is not None
    assert plain.prompt_ids == episode.turns[3].prompt_ids
    assert plain.prompt_ids != first.prompt_ids
    assert branch.turns[1].messages[-2].token_ids == first.response_ids


def test_a_branch_refuses_a_state_it_cannot_reproduce(parent) -> None:
    rollouts, _, episode = parent
    for turn in episode.turns:
        turn.snapshot = None
    episode.final_snapshot = None
    episode.turns[2].observation = type(episode.turns[2].observation)("elsewhere", (), None)

    async def go():
        branch = rollouts.branch(episode, 3, name="x")
        branch.keep(await branch.sample())
        try:
            await branch.step()
        finally:
            branch.close("mismatch")

    with pytest.raises(ReplayMismatch):
        asyncio.run(go())
