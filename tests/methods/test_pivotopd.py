from __future__ import annotations

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.prompts import PromptSettings
from turnpoint.records import RowKind, StopReason
from turnpoint.testing import crashing_suite, replay_suite, stochastic_suite
from turnpoint.testing.harness import random_agent

ZERO = {"w_prev": 0.0, "w_traj": 0.0, "recovery_turns": 0}


def rows_of(played, kind):
    return [row for row in played.rows if row.kind == kind]


def turn_of(played, row):
    episodes = {e.id: e for g in played.groups for e in (*g.episodes, *g.branches)}
    return next(t for t in episodes[row.episode].turns if t.index == row.turn)


@pytest.mark.parametrize("normalise", ["mean", "mean_std"])
@pytest.mark.parametrize("baseline", ["rows", "episodes"])
def test_without_terms_it_is_grpo_bit_for_bit(play, normalise, baseline) -> None:
    ours = play(PivotOPDSettings(group=4, normalise=normalise, baseline=baseline, **ZERO))
    grpo = play(GRPOSettings(group=4, normalise=normalise, baseline=baseline))
    assert len(ours.rows) == len(grpo.rows)
    for a, b in zip(ours.rows, grpo.rows, strict=True):
        assert a.prompt_ids == b.prompt_ids
        assert a.response_ids == b.response_ids
        assert a.advantages.tobytes() == b.advantages.tobytes()
        assert a.old_logprobs.tobytes() == b.old_logprobs.tobytes()


def test_preventive_and_lesson_terms_are_what_the_paper_says(play, scripted_teacher) -> None:
    played = play(
        PivotOPDSettings(group=4, w_prev=0.3, w_traj=0.2, recovery_turns=0), teacher=scripted_teacher()
    )
    base = play(PivotOPDSettings(group=4, **ZERO))
    pivotal = 0
    for row, plain in zip(played.rows, base.rows, strict=True):
        turn, prompter = turn_of(played, row), played.scorer.prompter
        episode = next(e for g in played.groups for e in g.episodes if e.id == row.episode)
        expected = plain.advantages.copy()
        pivot = next((p for p in episode.pivots if p.turn == turn.index and p.resolved), None)
        if pivot is not None:
            pivotal += 1
            request = played.scorer.hinted(turn, prompter.hint_text(pivot.resolved))
            expected += 0.3 * (played.policy.logprobs([request])[0] - row.old_logprobs)
        request = played.scorer.with_lesson(turn, "light the lamps first")
        expected += 0.2 * (played.policy.logprobs([request])[0] - row.old_logprobs)
        np.testing.assert_allclose(row.advantages, expected, rtol=0, atol=1e-12)
    assert pivotal
    assert played.tally["pivots_used"] == pivotal


def test_recovery_rows_train_the_unhinted_context(play, scripted_teacher) -> None:
    played = play(
        PivotOPDSettings(group=4, w_rec=0.25, delta=1.0, recovery_turns=2), teacher=scripted_teacher()
    )
    rows = rows_of(played, RowKind.RECOVERY)
    assert rows
    for row in rows:
        turn = turn_of(played, row)
        assert turn.hint is not None
        assert turn.hint not in played.policy.tokenizer.decode(row.prompt_ids)
        assert turn.hint in played.policy.tokenizer.decode(turn.prompt_ids)
        plain = played.policy.logprobs([played.scorer.plain(turn)])[0]
        np.testing.assert_array_equal(row.old_logprobs, plain)
        expected = 0.25 * np.clip(np.array(turn.logprobs) - plain, -1, 1)
        np.testing.assert_allclose(row.advantages, expected, atol=1e-12)
        assert np.abs(row.advantages).max() <= 0.25 + 1e-12


def test_recovery_branches_execute_the_students_action(play, scripted_teacher) -> None:
    """The environment is stepped with the action in the sample, not with the teacher's."""
    played = play(
        PivotOPDSettings(group=4, recovery_turns=3),
        teacher=scripted_teacher(),
        script=random_agent(obedient=False),
    )
    long = [b for g in played.groups for b in g.branches if len(b.turns) > 1]
    assert long
    disagreeing = 0
    for branch in long:
        first, second = branch.turns[:2]
        disagreeing += first.executed != first.gold_actions[0]
        assert second.messages[-2].token_ids == first.response_ids
    assert disagreeing
    assert played.tally["recovery_agreement"] < 1


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_branch_length_is_at_most_k(play, scripted_teacher, k) -> None:
    played = play(PivotOPDSettings(group=4, recovery_turns=k), teacher=scripted_teacher())
    lengths = {len(b.turns) for g in played.groups for b in g.branches}
    assert max(lengths, default=0) == k
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained == played.sampled - played.tally.get("dropped_tokens/recovery", 0)


def test_replay_environments_recover_too(play, scripted_teacher) -> None:
    native = play(PivotOPDSettings(group=4), teacher=scripted_teacher())
    replayed = play(PivotOPDSettings(group=4), teacher=scripted_teacher(), suite=replay_suite())
    assert [r.response_ids for r in native.rows] == [r.response_ids for r in replayed.rows]


def test_recovery_rows_stay_out_of_the_baseline(play, scripted_teacher) -> None:
    with_recovery = play(PivotOPDSettings(group=4, w_prev=0, w_traj=0), teacher=scripted_teacher())
    without = play(PivotOPDSettings(group=4, **ZERO))
    acts = rows_of(with_recovery, RowKind.ACT)
    assert [a.advantages.tolist() for a in acts] == [b.advantages.tolist() for b in without.rows]


def test_pivot_at_the_last_turn_is_preventive_only(play, scripted_teacher) -> None:
    teacher = scripted_teacher(turns=lambda episode: [len(episode.turns) - 1])
    played = play(PivotOPDSettings(group=4), teacher=teacher)
    assert played.tally["pivots_used"]
    assert rows_of(played, RowKind.RECOVERY) == []
    assert played.tally["signal_empty/recovery"] == 1


def test_the_cap_keeps_a_seeded_choice(play, scripted_teacher) -> None:
    settings = PivotOPDSettings(group=4, max_recoveries=3, recovery_turns=1)
    played = [play(settings, teacher=scripted_teacher()) for _ in range(2)]
    chosen = [[b.id for g in p.groups for b in g.branches] for p in played]
    assert len(chosen[0]) == 3
    assert chosen[0] == chosen[1]
    assert played[0].tally["recovery_jobs"] == 3 + played[0].tally["recovery_jobs_over_cap"]


def test_unresolved_and_equal_actions_are_skipped(play, scripted_teacher) -> None:
    class Other(scripted_teacher):
        async def analyse(self, episode, max_pivots):
            report = await super().analyse(episode, max_pivots)
            report.candidates[0] = type(report.candidates[0])(1, "fly to the moon")
            if len(report.candidates) > 1:
                report.candidates[1] = type(report.candidates[1])(3, episode.turns[3].executed)
            return report

    played = play(PivotOPDSettings(group=4, recovery_turns=1), teacher=Other(), script=random_agent())
    assert played.tally["pivots_skipped/unresolved"] == 12
    assert played.tally["pivots_skipped/same_action"] > 0
    assert "pivots_used" not in played.tally


def test_a_turn_without_action_is_a_mismatch(play, scripted_teacher) -> None:
    played = play(
        PivotOPDSettings(group=2, recovery_turns=0),
        teacher=scripted_teacher(),
        script=lambda prompt, seed: "no idea",
    )
    assert played.tally["pivots_used"] == played.tally["pivots_named"]


def test_a_failed_teacher_costs_its_signal_only(play, scripted_teacher) -> None:
    teacher = scripted_teacher(fail_on=lambda episode: episode.id.endswith("/0"))
    played = play(PivotOPDSettings(group=4), teacher=teacher)
    assert played.tally["teacher_failures/time_out"] == 3
    failed = [row for row in rows_of(played, RowKind.ACT) if row.episode.endswith("/0")]
    reference = play(PivotOPDSettings(group=4, **ZERO))
    plain = [row for row in reference.rows if row.episode.endswith("/0")]
    assert [a.advantages.tolist() for a in failed] == [b.advantages.tolist() for b in plain]


def test_leaking_samples_are_dropped_and_counted(play, scripted_teacher) -> None:
    def script(prompt: str, seed: int) -> str:
        reply = random_agent()(prompt, seed)
        return f"Following the hint: {reply}" if "reasonable approach" in prompt else reply

    played = play(PivotOPDSettings(group=4), teacher=scripted_teacher(), script=script)
    assert rows_of(played, RowKind.RECOVERY) == []
    assert played.tally["recovery_ended/hint_leaked"] == played.tally["recovery_jobs"]
    assert played.tally["dropped_tokens/recovery"] > 0


def test_hints_without_gold_name_no_action(play, scripted_teacher) -> None:
    played = play(PivotOPDSettings(group=4, ablation="hints_without_gold"), teacher=scripted_teacher())
    rows = rows_of(played, RowKind.RECOVERY)
    assert rows
    for row in rows:
        turn = turn_of(played, row)
        assert all(action not in turn.hint for action in turn.observation.admissible)


def test_reverse_kl_recovery_samples_the_unhinted_student(play, scripted_teacher) -> None:
    played = play(PivotOPDSettings(group=4, ablation="reverse_kl_recovery"), teacher=scripted_teacher())
    rows = rows_of(played, RowKind.RECOVERY)
    assert rows
    for row in rows:
        turn = turn_of(played, row)
        assert row.prompt_ids == turn.prompt_ids
        assert row.old_logprobs.tolist() == list(turn.logprobs)
        hinted = played.policy.logprobs([played.scorer.hinted(turn, turn.hint)])[0]
        np.testing.assert_allclose(row.advantages, np.clip(hinted - row.old_logprobs, -5, 5), atol=1e-12)


def test_random_turns_move_the_pivots(play, scripted_teacher) -> None:
    teacher = scripted_teacher(turns=lambda episode: [0])
    played = play(PivotOPDSettings(group=8, ablation="random_turns", recovery_turns=0), teacher=teacher)
    pivots = [p for g in played.groups for e in g.episodes for p in e.pivots]
    assert {p.source for p in pivots} == {"random"}
    assert len({p.turn for p in pivots}) > 3


def test_preventive_only_and_recovery_only(play, scripted_teacher) -> None:
    only = play(PivotOPDSettings(group=4, ablation="preventive_only"), teacher=scripted_teacher())
    assert only.method.settings.w_prev == 0.1
    assert rows_of(only, RowKind.RECOVERY) == []
    assert only.tally["preventive_tokens"] > 0
    recovery = play(PivotOPDSettings(group=4, ablation="recovery_only"), teacher=scripted_teacher())
    assert "preventive_tokens" not in recovery.tally
    assert rows_of(recovery, RowKind.RECOVERY)


def test_settings_that_cannot_work_are_refused(play) -> None:
    with pytest.raises(ConfigError, match=r"teacher\.kind"):
        play(PivotOPDSettings(group=2))
    with pytest.raises(ConfigError, match="recovery_turns to 1"):
        play(PivotOPDSettings(group=2), teacher=object(), suite=stochastic_suite())
    with pytest.raises(ValueError, match="recovery_turns >= 1"):
        PivotOPDSettings(ablation="recovery_only", recovery_turns=0)


def test_preventive_only_works_where_states_cannot_be_reproduced(scripted_teacher) -> None:
    """The ablation has no recovery, so it needs no replay whatever ``recovery_turns`` says."""
    settings = PivotOPDSettings(ablation="preventive_only")
    settings.check(stochastic_suite().capabilities, Teachers(naming=scripted_teacher()))


@pytest.mark.parametrize("inert", [{"ablation": "recovery_only", "w_rec": 0}, {"max_recoveries": 0}])
def test_settings_that_would_do_nothing_are_refused(inert) -> None:
    with pytest.raises(ValueError, match="set "):
        PivotOPDSettings(**inert)


def test_a_hinted_prompt_that_does_not_fit_costs_its_signal_and_is_counted(play, scripted_teacher) -> None:
    settings = PivotOPDSettings(group=4, ablation="reverse_kl_recovery", w_prev=0.1)
    free = play(settings, teacher=scripted_teacher())
    longest = max(len(turn_of(free, row).prompt_ids) for row in rows_of(free, RowKind.RECOVERY))
    tight = play(settings, teacher=scripted_teacher(), prompt=PromptSettings(max_prompt_tokens=longest))
    assert tight.tally["recovery_skipped/prompt_too_long"] > 0
    assert tight.tally["dropped_tokens/recovery_prompt_too_long"] > 0
    trained = sum(len(row.response_ids) for row in tight.rows)
    dropped = sum(value for name, value in tight.tally.items() if name.startswith("dropped_tokens/"))
    assert trained + dropped == tight.sampled


def test_episodes_that_ended_by_a_fault_are_not_analysed(play, scripted_teacher) -> None:
    played = play(PivotOPDSettings(group=4), teacher=scripted_teacher(), suite=crashing_suite(fault_every=2))
    broken = [e for g in played.groups for e in g.episodes if e.stop == StopReason.ENV_ERROR]
    assert broken
    assert all(not e.pivots for e in broken)
    assert played.tally["reports_skipped/unusable_episode"] == len(broken)
