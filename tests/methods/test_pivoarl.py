from __future__ import annotations

import asyncio

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.gigpo import GiGPOSettings
from turnpoint.methods.pivoarl import PivoARLSettings
from turnpoint.records import RowKind, StopReason
from turnpoint.testing import replay_suite, stochastic_suite, toy_suite

from .chain_tools import attempt, chains, conserved, group_of, reflecting_agent, worked_chains

TOY = {"rooms": 2, "max_turns": 10}
WORKED = {"gamma_step": 0.9, "gamma_traj": 0.5}


def credited(episodes, **settings):
    """Advantage of every row by (episode, turn), reflections as turn ``r``; and the tally."""
    method = PivoARLSettings(**(WORKED | settings)).build()
    rows = asyncio.run(method.credit([group_of(episodes)], None, Teachers()))
    for row in rows:
        assert len(set(row.advantages.tolist())) == 1
    name = {RowKind.REFLECT: "r"}
    return {(r.episode, name.get(r.kind, r.turn)): r.advantages[0] for r in rows}, method.tally.take()


def close(got, expected) -> None:
    assert set(got) == set(expected)
    for key, value in expected.items():
        assert got[key] == pytest.approx(value, abs=1e-9), key


# ---- credit of given chains ---------------------------------------------------------------------

PAPER = {
    ("A0", 0): -0.858875, ("A0", 1): -0.68225, ("A0", 2): -0.5,
    ("A1", 1): -0.31775, ("A1", 2): -0.95, ("A2", 2): 0.95, ("A2", 3): 0.5,
    ("B0", 0): 0.858875, ("B0", 1): 0.5, ("A0", "r"): -0.45, ("A1", "r"): 0.45,
}  # fmt: skip


def test_worked_advantages() -> None:
    got, tally = credited(worked_chains())
    close(got, PAPER)
    assert (tally["success_at/1"], tally["success_at/2"], tally["success_at/3"]) == (0.5, 0.5, 1.0)
    assert tally["retry_ratio"] == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert tally["reflection_return"] == pytest.approx(0.45)


def test_weights_of_the_levels() -> None:
    episode = credited(worked_chains(), omega=0.0)[0]
    step = credited(worked_chains(), episode_weight=0.0)[0]
    half = credited(worked_chains(), omega=0.5, episode_weight=2.0)[0]
    for key, value in PAPER.items():
        if key[1] == "r":
            assert half[key] == pytest.approx(value)
        else:
            assert episode[key] + step[key] == pytest.approx(value)
            assert half[key] == pytest.approx(2 * episode[key] + 0.5 * step[key])
    assert episode["A2", 3] == pytest.approx(0.5)
    assert episode["A0", 0] == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("settings", "returns"),
    [
        ({}, {"A0": [0.18225, 0], "A1": [0.3645, 0], "B0": [0.9]}),
        ({"isolation": False}, {"A0": [0.18225, 0.18225], "A1": [0.3645, 0.3645], "B0": [0.9]}),
        ({"successor_return": "pivot"}, {"A0": [0.225, 0], "A1": [0.45, 0], "B0": [0.9]}),
    ],
)
def test_returns_of_the_variants(settings, returns) -> None:
    """At s0 the start of A0 meets B0's, at s1 turn 1 of A0 meets A1's, and at u2 turn 2 of A1 meets A2's."""
    got, _ = credited(worked_chains(), episode_weight=0.0, **settings)
    (a0, a0_late), (a1, a1_late), (b0,) = returns["A0"], returns["A1"], returns["B0"]
    assert got["A0", 0] == pytest.approx((a0 - b0) / 2)
    assert got["A0", 1] == pytest.approx((a0_late - a1) / 2)
    assert got["A1", 2] == pytest.approx((a1_late - 0.9) / 2)


def test_dense_rewards() -> None:
    """Attempt 0 meets attempt 1 at turn 1, and attempt 2 meets attempt 1 at turn 2."""
    a0 = attempt([0.5, 0, -0.1], ["s0", "s1", "s2"], reflects=(1, "r"))
    a1 = attempt([0.5, 0.5, -0.1], ["s0", "s1", "u2"], index=1, start=1, before=a0, reflects=(2, "r"))
    a2 = attempt([0.5, 0.5, 0.5, 10], ["s0", "s1", "u2", "u3"], success=True, index=2, start=2, before=a1)
    got, _ = credited([a0, a1, a2], episode_weight=0.0)
    half = (4.7325 + 0.09) / 2
    close(
        got,
        {
            ("A0", 0): 0, ("A0", 1): -half, ("A0", 2): 0, ("A1", 1): half, ("A1", 2): (-0.1 - 9.5) / 2,
            ("A2", 2): (9.5 + 0.1) / 2, ("A2", 3): 0, ("A0", "r"): -4.75, ("A1", "r"): 4.75,
        },
    )  # fmt: skip


def test_published_discounts() -> None:
    a0 = attempt([0] * 4, ["s0", "s1", "s2", "s3"], reflects=(2, "r"))
    a1 = attempt([0, 0, 0, 0, 10], ["s0", "s1", "s2", "u3", "u4"], success=True, index=1, start=2, before=a0)
    b0 = attempt([0, 0], ["s0", "s1"], chain="B", reflects=(None, ""))
    b1 = attempt([0, 0], ["s0", "s1"], index=1, chain="B")
    got, _ = credited([a0, a1, b0, b1], gamma_step=0.95, gamma_traj=0.6, episode_weight=0.0)
    assert got["A0", 0] == pytest.approx(4.887038 * 2 / 3, abs=1e-6)
    assert got["A0", 2] == pytest.approx(-9.025 / 2)
    assert got["A0", "r"] == pytest.approx(9.025 / 2)
    assert got["B0", "r"] == pytest.approx(-9.025 / 2)


def test_a_pivot_at_turn_zero_breaks_the_chain_of_credit() -> None:
    a0 = attempt([0, 0], ["s0", "s1"], reflects=(0, "r"))
    a1 = attempt([0, 1], ["s0", "u1"], success=True, index=1, start=0, before=a0)
    got, _ = credited([a0, a1], episode_weight=0.0)
    close(got, {("A0", 0): -0.45, ("A0", 1): 0, ("A1", 0): 0.45, ("A1", 1): 0, ("A0", "r"): 0})


def test_failure_everywhere_gives_no_gradient() -> None:
    a0 = attempt([0, 0], ["s0", "s1"], reflects=(1, "r"))
    a1 = attempt([0, 0], ["s0", "s1"], index=1, start=1, before=a0)
    got, tally = credited([a0, a1, attempt([0], ["s0"], chain="B")])
    assert not any(got.values())
    assert tally["zero_variance_groups"] == 1.0


@pytest.mark.parametrize("case", ["no_pivot", "no_remark", "mismatch"])
def test_reflections_without_credit(case: str) -> None:
    """Beside a chain whose reflection earned .81: what is wrong earns 0, though its retry succeeds too."""
    named = {"no_pivot": (None, "r"), "no_remark": (1, ""), "mismatch": (1, "r")}[case]
    start = 1 if case == "no_remark" else None
    a0 = attempt([0, 0], ["s0", "s1"], reflects=named)
    a1 = attempt([0, 0, 0, 1], ["s0", "s1", "u2", "u3"], success=True, index=1, start=start, before=a0)
    b0 = attempt([0, 0], ["s0", "s1"], chain="B", reflects=(1, "r"))
    b1 = attempt([0, 0, 0, 1], ["s0", "s1", "u2", "u3"], success=True, index=1, start=1, before=b0, chain="B")
    got, tally = credited([a0, a1, b0, b1])
    assert got["A0", "r"] == pytest.approx(-0.405)
    assert got["B0", "r"] == pytest.approx(0.405)
    assert tally["full_restarts"] == (0.0 if case == "no_remark" else 0.5)


def test_a_kept_pivot_without_a_remark_still_carries_credit() -> None:
    a0 = attempt([0, 0], ["s0", "s1"], reflects=(1, ""))
    a1 = attempt([0, 1], ["s0", "s1"], success=True, index=1, start=1, before=a0)
    b0 = attempt([0], ["s0"], chain="B")
    got, _ = credited([a0, a1, b0], episode_weight=0.0)
    assert got["A0", 0] == pytest.approx(0.5 * 0.9 / 2)


def test_baselines_of_the_episode_level() -> None:
    per_row, _ = credited(worked_chains(), omega=0.0, baseline="rows")
    share = 4 / 9  # rows of attempts that won
    assert per_row["A0", 0] == pytest.approx(-share)
    assert per_row["B0", 1] == pytest.approx(1 - share)
    per_chain, _ = credited(worked_chains(), omega=0.0, baseline="chain")
    assert per_chain["A0", 0] == pytest.approx(-1 / 3)
    assert per_chain["A2", 3] == pytest.approx(2 / 3)
    assert per_chain["B0", 0] == 0.0


def test_standard_deviations_divide_all_levels() -> None:
    got, _ = credited(worked_chains(), normalise="mean_std")
    std = np.std([0, 0, 1, 1], ddof=1)
    assert got["A2", 3] == pytest.approx(0.5 / std, rel=1e-5)
    assert got["A1", "r"] == pytest.approx(0.45 / np.std([0, 0.9], ddof=1), rel=1e-5)


def test_anchors_may_be_observations() -> None:
    episodes = worked_chains()
    for episode in episodes:
        for turn in episode.turns:
            turn.observation = type(turn.observation)("the same text", None, turn.observation.state_key)
    got, _ = credited(episodes, episode_weight=0.0, anchor="observation")
    returns = [0.18225, 0, 0, 0.3645, 0, 0.9, 1, 0.9, 1]
    assert got["A0", 0] == pytest.approx(0.18225 - np.mean(returns))
    by_state, _ = credited(episodes, episode_weight=0.0)
    assert by_state["A0", 2] == 0.0


def test_invalid_turns_pay_at_both_levels() -> None:
    plain = [attempt([0, 1], ["s0", "a1"], success=True), attempt([0], ["s0"], chain="B")]
    fined = [attempt([0, 1], ["s0", "a1"], success=True), attempt([0], ["s0"], chain="B", invalid=[0])]
    got, other = credited(fined, invalid_penalty=0.5)[0], credited(plain)[0]
    assert got["B0", 0] == pytest.approx(other["B0", 0] - 0.5 / 2 - 0.5 / 2)


def test_a_fault_cuts_its_chain() -> None:
    """Attempt 1 crashed: attempt 0 is the chain's last, and its reflection has no known worth."""
    a0 = attempt([0, 0], ["s0", "s1"], reflects=(1, "r"))
    a1 = attempt([0, 0, 0], ["s0", "s1", "s2"], index=1, start=1, before=a0)
    a1.stop, a1.success = StopReason.ENV_ERROR, None
    got, tally = credited([a0, a1, attempt([1], ["s0"], success=True, chain="B")])
    assert set(got) == {("A0", 0), ("A0", 1), ("B0", 0)}
    assert tally["dropped_tokens/env_error"] == 4
    assert tally["dropped_tokens/reflection_without_retry"] == 3


def test_a_step_of_faults_alone_gives_no_rows() -> None:
    only = attempt([0], ["s0"])
    only.stop, only.success = StopReason.TIME_OUT, None
    got, tally = credited([only])
    assert got == {}
    assert tally["dropped_episodes/time_out"] == 1


# ---- whole steps --------------------------------------------------------------------------------


def test_native_and_replayed_restarts_agree(play) -> None:
    def essence(played):
        return [(r.prompt_ids, r.response_ids, r.advantages.tolist()) for r in played.rows]

    settings = PivoARLSettings(group=4)
    native = play(settings, script=reflecting_agent(), suite=toy_suite(**TOY))
    assert essence(native) == essence(play(settings, script=reflecting_agent(), suite=replay_suite(**TOY)))


@pytest.mark.parametrize("normalise", ["mean", "mean_std"])
@pytest.mark.parametrize("baseline", ["episodes", "rows"])
@pytest.mark.parametrize("anchor", ["state", "observation"])
def test_one_attempt_is_gigpo_bit_for_bit(play, normalise, baseline, anchor) -> None:
    shared = {"group": 6, "normalise": normalise, "invalid_penalty": 0.3, "omega": 0.7, "anchor": anchor}
    suite = toy_suite(rooms=2, max_turns=14)
    ours = play(
        PivoARLSettings(attempts=1, baseline="attempts" if baseline == "episodes" else "rows", **shared),
        suite=suite,
    )
    gigpo = play(GiGPOSettings(baseline=baseline, gamma=0.95, **shared), suite=suite)
    assert any(row.advantages.any() for row in ours.rows)
    assert len(ours.rows) == len(gigpo.rows)
    for a, b in zip(ours.rows, gigpo.rows, strict=True):
        assert (a.prompt_ids, a.response_ids, a.episode, a.turn) == (
            b.prompt_ids,
            b.response_ids,
            b.episode,
            b.turn,
        )
        assert a.advantages.tobytes() == b.advantages.tobytes()
        assert a.old_logprobs.tobytes() == b.old_logprobs.tobytes()


def test_the_ablations(play) -> None:
    def run(ablation):
        return play(
            PivoARLSettings(group=6, ablation=ablation), script=reflecting_agent(), suite=toy_suite(**TOY)
        )

    def acts(played):
        return [r.response_ids for r in played.rows if r.kind == RowKind.ACT]

    full = run("none")
    isolated = run("without_isolation")
    assert acts(full) == acts(isolated)
    assert [r.advantages.tolist() for r in full.rows] != [r.advantages.tolist() for r in isolated.rows]

    untrained = run("without_reflection_training")
    assert acts(full) == acts(untrained)
    assert not any(r.kind == RowKind.REFLECT for r in untrained.rows)
    assert untrained.tally["dropped_tokens/reflection_untrained"] > 0

    restarted = run("without_pivot")
    retries = [e for chain in chains(restarted) for e in chain[1:]]
    assert retries
    assert all(e.forked_from is None and e.attempt.remarks for e in retries)
    assert restarted.tally["reflections_valid"] == 1.0
    assert restarted.tally["reflection_return"] > 0

    drawn = run("random_pivot")
    moved = [(c[0].reflection.pivot, c[1].forked_from.turn) for c in chains(drawn) if len(c) > 1]
    assert any(named != used for named, used in moved)
    assert all(e.attempt.remarks for c in chains(drawn) for e in c[1:])

    silent = run("without_reflection")
    retries = [e for chain in chains(silent) for e in chain[1:]]
    assert retries
    assert all(e.forked_from is not None and not e.attempt.remarks for e in retries)
    assert all(e.reflection is None for chain in chains(silent) for e in chain)
    for played in (full, isolated, untrained, restarted, drawn, silent):
        assert conserved(played)


def test_settings_that_cannot_work_are_refused() -> None:
    for name in ("group", "attempts", "reflection_tokens"):
        with pytest.raises(ValidationError, match=rf"{name}\n.*greater than"):
            PivoARLSettings.model_validate({name: 0})
    with pytest.raises(ValidationError, match="nothing names a turn; set restart to random or full"):
        PivoARLSettings(reflection="none")
    capabilities = stochastic_suite().capabilities
    with pytest.raises(ConfigError, match=r"set method\.restart to full"):
        PivoARLSettings().check(capabilities, Teachers())
    PivoARLSettings(attempts=1).check(capabilities, Teachers())
    PivoARLSettings(ablation="without_pivot").check(capabilities, Teachers())
