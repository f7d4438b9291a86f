from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from turnpoint.envs import EnvError
from turnpoint.envs.replay import ReplayMismatch
from turnpoint.methods import PlaysAttempts, Teachers
from turnpoint.methods.pivoarl import PivoARLSettings
from turnpoint.prompts import PromptSettings, reflection_reply
from turnpoint.records import RowKind, StopReason
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing import crashing_suite, replay_suite, toy_suite
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy

from .chain_tools import chains, conserved, reflecting_agent

TOY = {"rooms": 2, "max_turns": 10}


@pytest.mark.parametrize("prompt", [PromptSettings(), PromptSettings(history=2)])
@pytest.mark.parametrize("make_suite", [toy_suite, replay_suite])
def test_retries_reuse_turns_verbatim_and_train_new_ones_only(play, prompt, make_suite) -> None:
    settings = PivoARLSettings(group=6, attempts=3)
    played = play(settings, script=reflecting_agent(invalid=0.05), suite=make_suite(**TOY), prompt=prompt)
    retries = 0
    for chain in chains(played):
        assert all(not episode.success for episode in chain[:-1])
        assert len(chain) == 3 or chain[-1].success
        for n, (last, retry) in enumerate(pairwise(chain)):
            k = last.reflection.pivot
            retries += 1
            assert retry.forked_from.episode == last.id
            assert retry.forked_from.turn == k
            assert retry.attempt.index == n + 1
            assert retry.attempt.remarks == (*last.attempt.remarks, last.reflection.remark)
            assert len(retry.turns) <= 10
            for old, new in zip(last.turns[:k], retry.turns[:k], strict=True):
                assert new.reused
                assert (new.prompt_ids, new.response_ids, new.executed, new.reward) == (
                    old.prompt_ids, old.response_ids, old.executed, old.reward,
                )  # fmt: skip
            assert retry.turns[k].observation == last.turns[k].observation
            text = played.policy.tokenizer.decode(retry.turns[k].prompt_ids)
            assert all(remark in text for remark in retry.attempt.remarks)
    assert retries > 10
    acts = {(r.episode, r.turn) for r in played.rows if r.kind == RowKind.ACT}
    episodes = [episode for group in played.groups for episode in group.episodes]
    assert acts == {(e.id, t.index) for e in episodes for t in e.new_turns}
    assert len([r for r in played.rows if r.kind == RowKind.ACT]) == len(acts)
    assert sum(r.kind == RowKind.REFLECT for r in played.rows) == retries
    assert conserved(played)


def test_reflection_rows_extend_the_conversation(play) -> None:
    played = play(PivoARLSettings(group=4), script=reflecting_agent(), suite=toy_suite(**TOY))
    episodes = {e.id: e for g in played.groups for e in g.episodes}
    rows = [row for row in played.rows if row.kind == RowKind.REFLECT]
    assert rows
    for row in rows:
        last = episodes[row.episode].turns[-1]
        prefix = last.prompt_ids + last.response_ids
        if not last.reused and episodes[row.episode].new_turns:
            assert row.prompt_ids[: len(prefix)] == prefix
        assert row.turn == len(episodes[row.episode].turns)
        assert row.valid
        assert episodes[row.episode].reflection.scores["advantage"] == tuple(row.advantages)


@pytest.mark.parametrize(
    ("answer", "pivot", "remark"),
    [
        (lambda turns, rng: "I have no idea.", None, ""),
        (lambda turns, rng: reflection_reply(turns, "Look."), None, "Look."),
        (lambda turns, rng: "<pivot>first</pivot><remark>Look.</remark>", None, "Look."),
        (lambda turns, rng: reflection_reply(1, ""), 1, ""),
        (lambda turns, rng: reflection_reply(1, "long " * 100), None, ""),  # cut off by reflection_tokens
    ],
)
def test_bad_reflections(play, answer, pivot, remark) -> None:
    played = play(
        PivoARLSettings(group=4, reflection_tokens=200),
        script=reflecting_agent(answer),
        suite=toy_suite(**TOY),
    )
    retried = 0
    for chain in chains(played):
        for last, retry in pairwise(chain):
            retried += 1
            assert not last.reflection.valid
            assert last.reflection.pivot == pivot
            assert retry.attempt.remarks == (remark,) * (retry.attempt.index if remark else 0)
            assert (retry.forked_from is None) == (pivot is None)
            assert len(retry.new_turns) == len(retry.turns) - (pivot or 0)
    assert retried
    assert played.tally["reflections_valid"] == 0.0
    assert not any(row.advantages.any() for row in played.rows if row.kind == RowKind.REFLECT)
    assert conserved(played)


def test_only_the_last_remark_may_be_kept(play) -> None:
    played = play(PivoARLSettings(group=4, remarks="last"), script=reflecting_agent(), suite=toy_suite(**TOY))
    thirds = [chain for chain in chains(played) if len(chain) == 3]
    assert thirds
    for chain in thirds:
        assert chain[2].attempt.remarks == (chain[1].reflection.remark,)


@pytest.mark.parametrize("broken", [False, True], ids=["mismatch", "error"])
def test_a_state_that_does_not_come_back_is_given_up_for_a_full_restart(play, monkeypatch, broken) -> None:
    from turnpoint.rollouts import envs as module

    def refuses(env, episode, turn, *rest):
        mismatch = ReplayMismatch(episode.id, turn, "text", "a", "b")
        raise EnvError(str(mismatch)) if broken else mismatch

    monkeypatch.setattr(module, "restore_turn", refuses)
    played = play(PivoARLSettings(group=4), script=reflecting_agent(), suite=toy_suite(**TOY))
    retries = [episode for chain in chains(played) for episode in chain[1:]]
    assert retries
    for retry in retries:
        assert retry.forked_from is None
        assert "differs before turn" in retry.info["restore_mismatch"]
        assert retry.id.endswith("-full")
        assert len(retry.new_turns) == len(retry.turns)
    assert played.tally["restore_mismatches"] == len(retries)
    assert any(retry.success for retry in retries)
    assert not any(row.advantages.any() for row in played.rows if row.kind == RowKind.REFLECT)
    assert conserved(played)


def test_faults_end_chains(play) -> None:
    suite = crashing_suite(rooms=3, max_turns=10, fault_every=2, fault_turn=4)
    played = play(PivoARLSettings(group=4), script=reflecting_agent(), suite=suite, tasks=4)
    broken = [e for g in played.groups for e in g.episodes if e.stop == StopReason.ENV_ERROR]
    assert broken
    assert not {e.id for e in broken} & {row.episode for row in played.rows}
    assert played.tally["dropped_episodes/env_error"] == len(broken)
    assert conserved(played)


def test_a_reflection_that_does_not_fit_is_a_full_restart(play) -> None:
    class Short(ScriptedPolicy):
        def submit(self, request):
            from turnpoint.policy import ContextOverflow

            if "your remark</remark>" in self.tokenizer.decode(request.prompt_ids):
                raise ContextOverflow("too long")
            return super().submit(request)

    suite, settings = toy_suite(**TOY), PivoARLSettings(group=4)
    rollouts, scorer = make_rollouts(suite, Short(reflecting_agent()))
    method = settings.build()

    async def go():
        groups = await method.collect(suite.tasks("train")[:2], rollouts, Teachers())
        return groups, await method.credit(groups, scorer, Teachers())

    groups, rows = asyncio.run(go())
    tally = method.tally.take()
    retries = [e for g in groups for e in g.episodes if e.attempt.index]
    assert retries
    assert all(e.forked_from is None for e in retries)
    assert tally["reflections_skipped/prompt_too_long"] == len(retries)
    assert tally["signal_empty/reflection"] == 1
    assert sum(len(row.response_ids) for row in rows) == rollouts.sampled_tokens


def test_attempts_that_cannot_make_a_turn_end_the_chain(play) -> None:
    prompt = PromptSettings(max_prompt_tokens=40)
    played = play(PivoARLSettings(group=2), script=reflecting_agent(), suite=toy_suite(**TOY), prompt=prompt)
    assert [len(chain) for chain in chains(played)] == [1] * 6
    assert played.rows == []
    assert played.sampled == 0


def test_evaluation_plays_one_chain_and_counts_nothing() -> None:
    suite = toy_suite(**TOY)
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(reflecting_agent()))
    method = PivoARLSettings().build()
    assert isinstance(method, PlaysAttempts)
    task = suite.tasks("valid")[0]

    async def go():
        return await method.attempts(task, 0, rollouts, 5), await rollouts.play(task, 0)

    played, single = asyncio.run(go())
    assert 1 <= len(played) <= 5
    assert [t.response_ids for t in played[0].turns] == [t.response_ids for t in single.turns]
    assert method.tally.take() == {}
    assert method.state_dict() == {}


def test_the_turn_budget_counts_reused_turns(play) -> None:
    played = play(
        PivoARLSettings(group=3),
        script=reflecting_agent(lambda turns, rng: reflection_reply(turns - 1, "again")),
        suite=toy_suite(**TOY),
        rollout=RolloutSettings(max_response_tokens=200, max_turns=6),
    )
    retries = [e for chain in chains(played) for e in chain[1:]]
    assert retries
    assert all(len(e.turns) == 6 and len(e.new_turns) == 1 for e in retries if not e.success)
