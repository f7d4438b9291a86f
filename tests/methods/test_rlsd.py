from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.credit import rlsd_advantages
from turnpoint.methods.grpo import GRPOSettings
from turnpoint.methods.rlsd import RLSDSettings

STUDENT, TEACHER = [-0.5, -0.4, -1.0], [-0.3, -2.0, -0.95]


@pytest.mark.parametrize(
    ("advantage", "expected"), [(1.0, [1.1, 0.9, 1.025636]), (-1.0, [-0.909365, -1.1, -0.975615])]
)
def test_worked_numbers_with_the_methods_defaults(advantage, expected) -> None:
    s = RLSDSettings()
    got = rlsd_advantages(advantage, TEACHER, STUDENT, clip=s.clip, mix=s.mix)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_tokens_are_weighted_by_the_teacher_and_the_sign_stays(easy) -> None:
    options = {"group": 4, "privileged": "feedback"}
    played = easy(RLSDSettings(**options))
    plain = easy(GRPOSettings(group=4))
    by_turn = {(e.id, t.index): t for g in played.groups for e in g.episodes for t in e.turns}
    changed = 0
    for ours, theirs in zip(played.rows, plain.rows, strict=True):
        turn = by_turn[ours.episode, ours.turn]
        advantage = theirs.advantages[0]
        assert (np.sign(ours.advantages) == np.sign(advantage)).all()
        assert (np.abs(ours.advantages) <= abs(advantage) * 1.1 + 1e-12).all()
        assert (np.abs(ours.advantages) >= abs(advantage) * 0.9 - 1e-12).all()
        changed += bool((ours.advantages != advantage).any())
        assert turn.scores["advantage"] == tuple(ours.advantages)
    assert changed


def test_other_teacher_scores_change_the_advantages(easy) -> None:
    one, two = (easy(RLSDSettings(group=4, privileged=source)) for source in ("feedback", "sibling"))
    assert [r.advantages.tolist() for r in one.rows] != [r.advantages.tolist() for r in two.rows]


@given(
    st.floats(-5, 5, allow_nan=False),
    st.lists(st.tuples(st.floats(-9, 0), st.floats(-9, 0)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_a_teacher_equal_to_the_student_changes_nothing(advantage, pairs, mix) -> None:
    student = [p[0] for p in pairs]
    np.testing.assert_array_equal(rlsd_advantages(advantage, student, student, mix=mix), advantage)
