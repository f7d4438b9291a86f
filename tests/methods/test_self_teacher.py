"""What the self-taught methods share: whom they ask, what the teacher reads, and that nothing of it is trained."""

from __future__ import annotations

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.agentopsd import AgentOPSDSettings
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.opid import OPIDSettings
from turnpoint.methods.opsd import OPSDSettings
from turnpoint.methods.privileged import plan_text, solved_sibling
from turnpoint.methods.rlsd import RLSDSettings
from turnpoint.methods.sdar import SDARSettings
from turnpoint.methods.self_teacher import SHIFT
from turnpoint.prompts import PromptSettings
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing import crashing_suite, toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring

METHODS = {
    "rlsd": (RLSDSettings, {"mix": 0.0}),
    "sdar": (SDARSettings, {"coef": 0.0}),
    "agentopsd": (AgentOPSDSettings, {"mix": 0.0}),
    "opid": (OPIDSettings, {"episode_weight": 0.0, "step_weight": 0.0, "normalise": "mean_std"}),
}


def turn_of(played, row):
    episodes = {e.id: e for g in played.groups for e in g.episodes}
    return episodes[row.episode].turns[row.turn]


def group_of(played, row):
    return next(g for g in played.groups if any(e.id == row.episode for e in g.episodes))


def episode_of(played, row):
    return next(e for e in group_of(played, row).episodes if e.id == row.episode)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("normalise", ["mean", "mean_std"])
def test_without_its_coefficient_each_is_grpo_bit_for_bit(easy, name, normalise) -> None:
    kind, zero = METHODS[name]
    options = {"group": 4, "normalise": normalise, "invalid_penalty": 0.1}
    ours = easy(kind(**{**zero, **options}))
    grpo = easy(GRPOSettings(**options))
    assert len(ours.rows) == len(grpo.rows)
    assert any(row.advantages.any() for row in ours.rows)
    for a, b in zip(ours.rows, grpo.rows, strict=True):
        assert a.prompt_ids == b.prompt_ids
        assert a.response_ids == b.response_ids
        assert a.advantages.tobytes() == b.advantages.tobytes()
        assert a.old_logprobs.tobytes() == b.old_logprobs.tobytes()


@pytest.mark.parametrize("source", ["sibling", "lesson", "gold", "feedback"])
@pytest.mark.parametrize("compact", [False, True])
def test_the_teacher_reads_the_privileged_text_and_nothing_else_changes(
    easy, scripted_teacher, source, compact
) -> None:
    played = easy(
        SDARSettings(group=8, privileged=source, coef=0.5, beta=2.0),
        teacher=scripted_teacher(),
        prompt=PromptSettings(history=2, compact=compact),
        script=compact_agent if compact else None,
    )
    prompter, taught = played.scorer.prompter, 0
    plain = {r.episode: r.advantages[0] for r in rows_of_grpo(easy, compact)}
    for row in played.rows:
        turn, episode = turn_of(played, row), episode_of(played, row)
        messages = expected_messages(source, turn, episode, group_of(played, row), prompter)
        if messages is None:
            np.testing.assert_array_equal(row.advantages, plain[row.episode])
            continue
        taught += 1
        assert messages != tuple(turn.messages)
        request = played.scorer.request(messages, turn.response_ids)
        gap = played.policy.logprobs([request])[0] - row.old_logprobs
        expected = plain[row.episode] + 0.5 / (1 + np.exp(-2.0 * gap))
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)
        np.testing.assert_allclose(turn.scores[SHIFT], row.advantages - plain[row.episode], atol=1e-12)
        assert row.prompt_ids == turn.prompt_ids
    assert taught
    assert played.tally["teacher_tokens"] > 0
    assert sum(len(row.response_ids) for row in played.rows) == played.sampled


def compact_agent(prompt: str, seed: int) -> str:
    import random

    listed = prompt.rsplit("Can: ", 1)[-1].split("\n", 1)[0]
    return f"<action>{random.Random(seed).choice(listed.split(', '))}</action>"


def rows_of_grpo(easy, compact):
    script = compact_agent if compact else None
    prompt = PromptSettings(history=2, compact=compact)
    return easy(GRPOSettings(group=8), prompt=prompt, script=script).rows


def expected_messages(source, turn, episode, group, prompter):
    """The privileged prompt by its definition, put together anew."""
    compact = prompter.settings.compact
    if source == "sibling":
        solved = [e for e in group.episodes if e is not episode and e.success]
        if not solved:
            return None
        best = sorted(solved, key=lambda e: (len(e.turns), group.episodes.index(e)))[0]
        actions = ", ".join(t.executed for t in best.turns if t.valid and t.effective)
        text = actions if compact else f"these actions solved it: {actions}."
        return prompter.with_lesson(turn.messages, prompter.lesson_text(text))
    if source == "lesson":
        return prompter.with_lesson(turn.messages, prompter.lesson_text("light the lamps first"))
    if source == "gold":
        if turn.index not in (1, 3) or (turn.valid and turn.executed == turn.observation.admissible[-1]):
            return None  # not named, or what was named is what was done
        return prompter.with_hint(turn.messages, prompter.hint_text(turn.observation.admissible[-1]))
    after = (
        episode.turns[turn.index + 1].observation
        if turn.index + 1 < len(episode.turns)
        else episode.final_observation
    )
    answer = f"After your reply the environment will answer: {after.text}\nNever mention that you know this."
    return prompter.with_hint(turn.messages, f"Hint: {after.text}" if compact else answer)


def test_the_sibling_is_the_shortest_other_success(easy) -> None:
    played = easy(GRPOSettings(group=8))
    mixed = next(g for g in played.groups if 2 <= sum(bool(e.success) for e in g.episodes) < len(g.episodes))
    failed = next(e for e in mixed.episodes if not e.success)
    best = solved_sibling(mixed, failed)
    assert len(best.turns) == min(len(e.turns) for e in mixed.episodes if e.success)
    assert solved_sibling(mixed, best) is not best
    assert "open chest" in plan_text(best, played.scorer.prompter)
    mixed.episodes = [failed, best]
    assert solved_sibling(mixed, best) is None


def test_a_teacher_that_reaches_no_token_is_said_aloud(easy) -> None:
    nobody_solves = {"rooms": 5, "max_turns": 2}
    played = easy(SDARSettings(group=3), suite=toy_suite(**nobody_solves))
    assert played.tally["signal_empty/teacher"] == 1
    assert played.tally["teacher_skipped/no_text"] == len(played.rows)


@pytest.mark.parametrize("kind", [RLSDSettings, AgentOPSDSettings])
def test_weights_of_nothing_ask_nobody(easy, kind) -> None:
    played = easy(kind(group=3, privileged="feedback"), suite=toy_suite(rooms=5, max_turns=2))
    assert not any(row.advantages.any() for row in played.rows)
    assert not any(name.startswith(("teacher_", "signal_empty")) for name in played.tally)


def test_a_scoring_teacher_can_stand_in(easy) -> None:
    teacher = ScriptedScoring(lambda episode, turn: -0.5 - 0.1 * turn.index)
    played = easy(SDARSettings(group=4, privileged="scoring", coef=0.5, beta=2.0), scoring=teacher)
    plain = easy(GRPOSettings(group=4))
    for row, base in zip(played.rows, plain.rows, strict=True):
        gap = -0.5 - 0.1 * row.turn - row.old_logprobs
        expected = base.advantages + 0.5 / (1 + np.exp(-2.0 * gap))
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)


def test_privileged_prompts_that_do_not_fit_are_skipped_not_cut(easy) -> None:
    longest = max(len(row.prompt_ids) for row in easy(GRPOSettings(group=4)).rows)
    played = easy(
        SDARSettings(group=4, privileged="feedback"),
        prompt=PromptSettings(history=2, max_prompt_tokens=longest),
        rollout=RolloutSettings(max_response_tokens=200),
    )
    assert played.tally["teacher_skipped/prompt_too_long"] > 0
    assert played.tally["teacher_tokens"] > 0


def test_broken_episodes_train_nothing(easy) -> None:
    played = easy(SDARSettings(group=4, privileged="feedback"), suite=crashing_suite(fault_every=2))
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/env_error"] == played.sampled


def test_a_failed_naming_teacher_costs_its_signal_only(easy, scripted_teacher) -> None:
    teacher = scripted_teacher(fail_on=lambda episode: episode.id.endswith("/0"))
    played = easy(SDARSettings(group=4, privileged="lesson"), teacher=teacher)
    assert played.tally["teacher_failures/time_out"] == 2
    plain = easy(GRPOSettings(group=4))
    for ours, theirs in zip(played.rows, plain.rows, strict=True):
        assert (ours.advantages == theirs.advantages).all() == ours.episode.endswith("/0")


@pytest.mark.parametrize("kind", [RLSDSettings, SDARSettings, AgentOPSDSettings, OPSDSettings])
def test_settings_that_cannot_work_are_refused(easy, kind) -> None:
    with pytest.raises(ConfigError, match=r"teacher\.kind"):
        easy(kind(group=2, privileged="gold"))
    with pytest.raises(ConfigError, match=r"scoring\.kind"):
        easy(kind(group=2, privileged="scoring"))
    with pytest.raises(ConfigError, match=r"method\.group to 2"):
        easy(kind(group=1))
    assert kind(group=2, privileged="scoring").asks_scoring
    assert not kind(group=2).asks_scoring
