"""K follows from how many turns recoveries take, slowly and within bounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.recovery_depth import DEPTH, AdaptiveTurns, AdaptiveTurnsSettings
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Task
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.testing import replay_suite, stochastic_suite, toy_suite
from turnpoint.testing.harness import random_agent


def branches(*depths: tuple[int, bool]) -> list[Episode]:
    return [
        Episode(id=str(i), task=Task("t", "toy", ""), info={DEPTH: list(d)}) for i, d in enumerate(depths)
    ]


def adaptive(start: int = 2, **settings) -> AdaptiveTurns:
    chosen = {"min_branches": 4, "window": 8, "patience": 2} | settings
    return AdaptiveTurns(AdaptiveTurnsSettings(**chosen), start, Tally())


def test_k_rises_when_too_few_recover_and_falls_when_fewer_turns_do() -> None:
    found = adaptive()
    for expected in (2, 3, 3, 4, 4, 4):  # a step of patience before each move, then the bound
        found.learn(branches(*[(found.turns, False)] * 8))
        assert found.turns == expected
    for expected in (4, 3, 3, 2, 2, 1, 1, 1):
        found.learn(branches(*[(1, True)] * 8))
        assert found.turns == expected


def test_a_step_that_asks_otherwise_starts_patience_anew() -> None:
    found = adaptive(patience=3)
    up, stay = branches(*[(2, False)] * 8), branches(*[(2, True)] * 8)
    for step in (up, up, stay, up, up):
        found.learn(step)
    assert found.turns == 2
    found.learn(up)
    assert found.turns == 3


def test_few_branches_move_nothing() -> None:
    found = adaptive(patience=1)
    found.learn(branches((2, False), (2, False), (2, False)))
    assert found.turns == 2
    found.learn([])
    assert found.turns == 2
    found.learn(branches((2, False)))
    assert found.turns == 3


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=6), max_size=12),
    st.integers(0, 12),
    st.integers(1, 3),
)
def test_bounds_and_state(steps, cut, patience) -> None:
    whole = adaptive(patience=patience, least=2, most=3)
    path = []
    for step in steps:
        whole.learn(branches(*step))
        path.append(whole.turns)
    assert all(abs(a - b) <= 1 for a, b in zip([2, *path], path, strict=False))
    assert set(path) <= {2, 3}
    first = adaptive(patience=patience, least=2, most=3)
    for step in steps[:cut]:
        first.learn(branches(*step))
    second = adaptive(patience=patience, least=2, most=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step in steps[cut:]:
        second.learn(branches(*step))
    assert second.state_dict() == whole.state_dict()


@pytest.mark.parametrize("suite", [toy_suite(), replay_suite()], ids=["snapshots", "replay"])
def test_the_oracle_says_when_a_branch_has_recovered(play, suite) -> None:
    """An agent that follows the exact oracle's hints makes up for what the wrong turn cost in as many turns."""
    teacher = OracleTeacherSettings(knowledge="full").build(suite)
    settings = PivotOPDSettings(group=4, recovery_turns=3, adaptive_turns={})
    played = play(settings, teacher=teacher, suite=suite, script=random_agent())
    env, seen = suite.make(), 0
    owners = {e.id: e for g in played.groups for e in g.episodes}
    for branch in (b for g in played.groups for b in g.branches if DEPTH in b.info):
        parent, at = owners[branch.forked_from.episode], branch.forked_from.turn
        executed = [turn.executed for turn in [*parent.turns[:at], *branch.turns]]
        distances = [(env.reset(parent.task), env.distance())[1]]
        for action in executed:
            env.step(action)
            distances.append(env.distance())
        turns, recovered = branch.info[DEPTH]
        after = {k: distances[at + k] for k in range(1, len(branch.turns) + 1)}
        back = [k for k, far in after.items() if far is not None and far <= distances[at - 1]]
        assert recovered == bool(back)
        if recovered:
            seen += 1
            assert turns == back[0]
    assert seen
    assert played.tally["recovery_turns"] == 3
    assert 0 < played.tally["recovered_within_turns"] <= 1


def test_rows_and_tokens_are_those_of_a_fixed_k(play, scripted_teacher) -> None:
    """Measuring executes the last turn of a branch too, and changes nothing else."""
    fixed = play(PivotOPDSettings(group=4, recovery_turns=2), teacher=scripted_teacher())
    measured = play(
        PivotOPDSettings(group=4, recovery_turns=2, adaptive_turns={"min_branches": 200}),
        teacher=scripted_teacher(),
    )
    assert [r.response_ids for r in fixed.rows] == [r.response_ids for r in measured.rows]
    assert [r.advantages.tobytes() for r in fixed.rows] == [r.advantages.tobytes() for r in measured.rows]


def test_without_an_oracle_the_named_action_made_up_for_counts(play, scripted_teacher) -> None:
    """The branch has recovered in the first turn in which it does what was named for the wrong turn."""
    teacher = scripted_teacher(recovery=lambda where: where.observation.admissible[-1])
    settings = PivotOPDSettings(group=4, recovery_turns=2, adaptive_turns={"measure": "gold"})
    played = play(settings, teacher=teacher, script=random_agent(), suite=toy_suite(oracle=False))
    outcomes = set()
    for group in played.groups:
        for branch in group.branches:
            parent = next(e for e in group.episodes if e.id == branch.forked_from.episode)
            gold = next(p.resolved for p in parent.pivots if p.turn == branch.forked_from.turn - 1)
            done = [k for k, turn in enumerate(branch.turns, start=1) if turn.executed == gold]
            turns, recovered = branch.info[DEPTH]
            outcomes.add(recovered)
            if not branch.success:
                assert recovered == bool(done)
            if done and recovered:
                assert turns <= done[0]
    assert True in outcomes


def test_settings_that_cannot_work_are_refused(play) -> None:
    with pytest.raises(ConfigError, match=r"method\.adaptive_turns to null"):
        play(
            PivotOPDSettings(group=2, recovery_turns=1, adaptive_turns={}),
            teacher=object(),
            suite=stochastic_suite(),
        )
    with pytest.raises(ConfigError, match="set it to gold"):
        play(
            PivotOPDSettings(group=2, adaptive_turns={"measure": "oracle"}),
            teacher=object(),
            suite=toy_suite(oracle=False),
        )
    for wrong in ({"recovery_turns": 0}, {"recovery_turns": 5}, {"ablation": "preventive_only"}):
        with pytest.raises(ValueError, match="adaptive_turns starts at"):
            PivotOPDSettings(**wrong, adaptive_turns={})
    with pytest.raises(ValueError, match="set most to at least 5"):
        AdaptiveTurnsSettings(least=5)
    with pytest.raises(ValueError, match="raise window"):
        AdaptiveTurnsSettings(window=4)
