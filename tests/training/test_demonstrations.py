"""Demonstrations on the corridor game: what the oracle would do, and marked deviations from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.prompts import Prompter, PromptSettings, parse_reflection
from turnpoint.records import Episode, EpisodeKind, Fork, StopReason
from turnpoint.testing import toy_suite
from turnpoint.testing.toy_game import THROW
from turnpoint.training.demonstrations import make_demonstrations
from turnpoint.training.demonstrator import (
    DETOUR_TURNS,
    NOISE_TURNS,
    SKIPPED_TURNS,
    DemonstrationSettings,
)

PROMPTER = Prompter(PromptSettings(compact=True, show_admissible=False))


def demonstrate(limit: int = 60, seed: int = 0, **settings: Any) -> list[Episode]:
    suite = toy_suite(train_tasks=16)
    play = DemonstrationSettings(**settings)
    return list(make_demonstrations(suite, PROMPTER, suite.tasks("train"), play, seed=seed, limit=limit))


def test_without_deviations_every_action_is_a_best_one_and_every_task_is_solved() -> None:
    for episode in demonstrate(noise=0, hinted=0):
        assert episode.kind is EpisodeKind.DEMONSTRATION
        assert episode.stop is StopReason.SUCCESS
        assert episode.success
        for turn in episode.turns:
            assert turn.executed in turn.gold_actions
            assert PROMPTER.parse(turn.response) == turn.executed == turn.action
        assert not any(episode.info[key] for key in (NOISE_TURNS, SKIPPED_TURNS, DETOUR_TURNS))


def test_noise_turns_are_marked_and_are_about_their_share() -> None:
    episodes = demonstrate(noise=0.3, hinted=0)
    turns = [
        (turn, turn.index in episode.info[NOISE_TURNS]) for episode in episodes for turn in episode.turns
    ]
    for turn, noisy in turns:
        assert (turn.executed not in turn.gold_actions) == noisy
        assert turn.executed in turn.observation.admissible
    assert 0.2 < sum(noisy for _, noisy in turns) / len(turns) < 0.4


def test_slips_are_not_admissible_or_cannot_be_read() -> None:
    episodes = demonstrate(noise=0.4, slips=0.5, hinted=0, limit=120)
    kinds = {"admissible": 0, "refused": 0, "unreadable": 0}
    for episode in episodes:
        for turn in (episode.turns[i] for i in episode.info[NOISE_TURNS]):
            assert PROMPTER.parse(turn.response) == turn.action
            assert turn.executed == (turn.action or "")
            if turn.action is None:
                kinds["unreadable"] += 1
            elif turn.executed in turn.observation.admissible:
                kinds["admissible"] += 1
            else:
                kinds["refused"] += 1
                assert not turn.effective
    assert all(kinds.values())
    assert 0.35 < kinds["admissible"] / sum(kinds.values()) < 0.65


def test_an_episode_that_cannot_be_solved_any_more_has_no_outcome() -> None:
    lost = [e for e in demonstrate(noise=0.5, limit=80) if any(turn.executed == THROW for turn in e.turns)]
    assert lost
    assert all(e.stop in (StopReason.DEPTH_CAP, StopReason.MAX_TURNS) and not e.success for e in lost)


def test_hinted_turns_follow_their_hint() -> None:
    episodes = demonstrate(noise=0.0, hinted=0.5, hinted_turns=0.5, detours=0.5)
    hinted = [(e, turn) for e in episodes for turn in e.turns if turn.hint]
    assert 0.3 < sum(any(t.hint for t in e.turns) for e in episodes) / len(episodes) < 0.7
    for episode, turn in hinted:
        assert turn.hint == PROMPTER.hint_text(turn.executed)
        assert (turn.executed not in turn.gold_actions) == (turn.index in episode.info[DETOUR_TURNS])
    assert any(e.info[DETOUR_TURNS] for e in episodes)


def test_repairs_of_setbacks_can_be_withheld() -> None:
    shown = demonstrate(noise=0.3, hinted=0, recoveries=1.0)
    hidden = demonstrate(noise=0.3, hinted=0, recoveries=0.0)
    assert not any(e.info[SKIPPED_TURNS] for e in shown)
    assert any(e.info[SKIPPED_TURNS] for e in hidden)
    for episode in hidden:
        for turn in episode.info[SKIPPED_TURNS]:
            assert any(noise < turn for noise in episode.info[NOISE_TURNS])


def test_equal_seeds_give_equal_episodes_and_tasks_repeat_with_other_mistakes() -> None:
    assert demonstrate(noise=0.3) == demonstrate(noise=0.3)
    assert demonstrate(noise=0.3) != demonstrate(noise=0.3, seed=1)
    episodes = demonstrate(noise=0.3, limit=32)
    assert [e.task.id for e in episodes[:16]] == [e.task.id for e in episodes[16:]]
    assert any(
        [t.executed for t in a.turns] != [t.executed for t in b.turns]
        for a, b in zip(episodes[:16], episodes[16:], strict=True)
    )
    assert len({e.id for e in episodes}) == 32


def test_one_episode_per_task_by_default() -> None:
    suite = toy_suite(train_tasks=5)
    assert len(list(make_demonstrations(suite, PROMPTER, suite.tasks("train")))) == 5


def test_what_cannot_be_demonstrated_is_refused_at_once() -> None:
    suite = toy_suite(oracle=False)
    with pytest.raises(ConfigError, match="has none"):
        make_demonstrations(suite, PROMPTER, suite.tasks("train"))
    with pytest.raises(ConfigError, match="at least one task"):
        make_demonstrations(toy_suite(), PROMPTER, [])


def chains(**settings: Any) -> list[list[Episode]]:
    """Demonstrations of failed attempts, each with its retry."""
    episodes = demonstrate(limit=80, failing=1.0, blunders=0.5, noise=0.0, hinted=0.0, **settings)
    by_id = {episode.id: [episode] for episode in episodes if episode.attempt.index == 0}
    for episode in episodes:
        if episode.attempt.index:
            by_id[episode.attempt.chain].append(episode)
    return [chain for chain in by_id.values() if chain[0].reflection is not None]


def test_a_failed_attempt_has_a_reflection_and_goes_on_from_the_turn_it_names() -> None:
    found = chains()
    assert len(found) > 10
    for first, retry in (chain for chain in found if len(chain) == 2):
        reflection = first.reflection
        assert first.success is False
        assert reflection is not None
        read = parse_reflection(reflection.response, len(first.turns))
        assert read.valid
        assert (read.pivot, read.remark) == (reflection.pivot, reflection.remark)
        assert retry.forked_from == Fork(first.id, reflection.pivot)
        assert retry.attempt.remarks == (reflection.remark,)
        reused = [turn for turn in retry.turns if turn.reused]
        assert [t.executed for t in reused] == [t.executed for t in first.turns[: reflection.pivot]]
        assert retry.new_turns[0].index == reflection.pivot
        assert retry.new_turns[0].observation == first.observation_at(reflection.pivot)
        assert retry.new_turns[0].executed in retry.new_turns[0].gold_actions


def earliest_wrong(episode: Episode) -> int:
    return next(turn.index for turn in episode.turns if turn.executed not in turn.gold_actions)


def test_reflections_are_right_in_their_share() -> None:
    assert all(c[0].reflection.pivot == earliest_wrong(c[0]) for c in chains(reflection_accuracy=1.0))
    wrong = [c[0] for c in chains(reflection_accuracy=0.0) if len(c[0].turns) > 1]
    assert wrong
    assert all(episode.reflection.pivot != earliest_wrong(episode) for episode in wrong)
    for episode in (c[0] for c in chains(reflection_accuracy=1.0)):
        turn = episode.turns[episode.reflection.pivot]
        assert episode.reflection.remark == f"Do {turn.gold_actions[0]} instead of {turn.executed}."


def test_a_remark_alone_leads_to_a_full_restart() -> None:
    for first, retry in (chain for chain in chains(reflection_pivot=0.0) if len(chain) == 2):
        assert first.reflection.pivot is None
        assert parse_reflection(first.reflection.response, len(first.turns), pivot=False).valid
        assert retry.forked_from is None
        assert retry.turns[0].index == 0
        assert not any(turn.reused for turn in retry.turns)


def test_failing_demonstrations_need_snapshots() -> None:
    suite = toy_suite(train_tasks=16)
    suite.capabilities = replace(suite.capabilities, snapshots=False)
    with pytest.raises(ConfigError, match="no snapshots"):
        make_demonstrations(suite, PROMPTER, suite.tasks("train"), DemonstrationSettings(failing=0.5))
