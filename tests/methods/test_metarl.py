from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from turnpoint.methods import PlaysAttempts, Teachers
from turnpoint.methods.gigpo import GiGPOSettings
from turnpoint.methods.metarl import MetaRLSettings
from turnpoint.records import RowKind, StopReason, chains_of
from turnpoint.testing import crashing_suite, stochastic_suite, toy_suite
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy

from .chain_tools import attempt, group_of, reflecting_agent

TOY = {"rooms": 2, "max_turns": 10}


def credited(episodes, **settings):
    method = MetaRLSettings(**({"gamma_step": 0.9, "gamma_traj": 0.5} | settings)).build()
    rows = asyncio.run(method.credit([group_of(episodes)], None, Teachers()))
    return {(r.episode, "r" if r.kind == RowKind.REFLECT else r.turn): r.advantages[0] for r in rows}


def worked(valid=(True, True)):
    """Three attempts, the last one won; all states differ except the first of each attempt."""
    a0 = attempt([0, 0, 0], ["s0", "a1", "a2"])
    a1 = attempt([0, 0, 0], ["s0", "b1", "b2"], index=1)
    a2 = attempt([0, 0, 0, 1], ["s0", "c1", "c2", "c3"], index=2, success=True)
    for episode, good in zip((a0, a1), valid, strict=True):
        episode.reflection = attempt([0], ["x"], reflects=(0, "r")).reflection
        episode.reflection.valid = good
    return [a0, a1, a2]


def test_returns_cross_attempts_turn_by_turn() -> None:
    got = credited(worked(), episode_weight=0.0)
    starts = [0.119574225, 0.295245, 0.729]
    mean = sum(starts) / 3
    for n, start in enumerate(starts):
        assert got[f"A{n}", 0] == pytest.approx(start - mean)
    assert all(value == 0 for (_, turn), value in got.items() if turn not in (0, "r"))


@pytest.mark.parametrize(("turn", "a0", "a1"), [(1, 0.13286025, 0.32805), (2, 0.1476225, 0.3645)])
def test_later_turns_carry_the_running_return_too(turn, a0, a1) -> None:
    episodes = worked()
    for episode in episodes[:2]:
        seen = episode.turns[turn].observation
        episode.turns[turn].observation = type(seen)(seen.text, None, "same")
    got = credited(episodes, episode_weight=0.0)
    assert got["A0", turn] == pytest.approx((a0 - a1) / 2)


def test_a_reflection_returns_what_the_next_attempt_starts_with() -> None:
    got = credited(worked())
    half = (0.729 - 0.295245) / 2
    assert got["A0", "r"] == pytest.approx(-half)
    assert got["A1", "r"] == pytest.approx(half)
    without_remark = credited(worked(valid=(True, False)))
    assert without_remark["A1", "r"] == pytest.approx(-0.295245 / 2)


def test_every_attempt_starts_anew_with_all_remarks(play) -> None:
    played = play(MetaRLSettings(group=5), script=reflecting_agent(), suite=toy_suite(**TOY))
    chains = [chain for group in played.groups for chain in chains_of(group.episodes)]
    retries = 0
    for chain in chains:
        for n, episode in enumerate(chain):
            assert episode.forked_from is None
            assert not any(turn.reused for turn in episode.turns)
            assert len(episode.attempt.remarks) == n
            assert episode.attempt.remarks == tuple(e.reflection.remark for e in chain[:n])
            retries += n > 0
    assert retries
    assert played.tally["retry_ratio"] == 1.0
    assert played.tally["reflections_valid"] == 1.0
    asked = [played.policy.tokenizer.decode(r.prompt_ids) for r in played.rows if r.kind == RowKind.REFLECT]
    assert asked
    assert all("pivot" not in text for text in asked)
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled


def test_it_needs_no_restorable_states(play) -> None:
    played = play(MetaRLSettings(group=3), script=reflecting_agent(), suite=stochastic_suite(**TOY))
    assert any(e.attempt.index for g in played.groups for e in g.episodes)
    assert played.rows


def test_one_attempt_is_gigpo_bit_for_bit(play) -> None:
    suite = toy_suite(rooms=2, max_turns=14)
    ours = play(MetaRLSettings(group=6, attempts=1), suite=suite)
    gigpo = play(GiGPOSettings(group=6, invalid_penalty=0.5), suite=suite)
    assert any(row.advantages.any() for row in ours.rows)
    for a, b in zip(ours.rows, gigpo.rows, strict=True):
        assert a.response_ids == b.response_ids
        assert a.advantages.tobytes() == b.advantages.tobytes()


def test_tokens_are_conserved_when_attempts_crash(play) -> None:
    suite = crashing_suite(rooms=3, max_turns=10, fault_every=2, fault_turn=4)
    played = play(MetaRLSettings(group=4), script=reflecting_agent(), suite=suite, tasks=4)
    assert any(e.stop == StopReason.ENV_ERROR for g in played.groups for e in g.episodes)
    in_rows = sum(len(row.response_ids) for row in played.rows)
    dropped = sum(value for name, value in played.tally.items() if name.startswith("dropped_tokens/"))
    assert in_rows + dropped == played.sampled


def test_untrained_and_absent_reflections(play) -> None:
    for reflection, expected in (("untrained", True), ("none", False)):
        played = play(
            MetaRLSettings(group=4, reflection=reflection), script=reflecting_agent(), suite=toy_suite(**TOY)
        )
        retries = [e for g in played.groups for e in g.episodes if e.attempt.index]
        assert retries
        assert all(bool(e.attempt.remarks) == expected for e in retries)
        assert {row.kind for row in played.rows} == {RowKind.ACT}


def test_evaluation_plays_chains() -> None:
    suite = toy_suite(**TOY)
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(reflecting_agent()))
    method = MetaRLSettings().build()
    assert isinstance(method, PlaysAttempts)
    played = asyncio.run(method.attempts(suite.tasks("valid")[1], 0, rollouts, 4))
    assert len(played) == 4 or played[-1].success
    assert method.tally.take() == {}


def test_numbers_of_zero_are_refused() -> None:
    for name in ("group", "attempts"):
        with pytest.raises(ValidationError, match=rf"{name}\n.*greater than"):
            MetaRLSettings.model_validate({name: 0})
