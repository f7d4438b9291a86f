"""A named action is tried in a fork: it must exist and move the state, and the trial is counted by itself."""

from __future__ import annotations

import asyncio

import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.pivotopd import PivotOPDSettings
from turnpoint.methods.situations import situation
from turnpoint.methods.tally import Tally
from turnpoint.methods.verification import Verifier, VerifySettings, moved
from turnpoint.records import Observation, RowKind, Step
from turnpoint.teachers.oracle import OracleTeacherSettings
from turnpoint.testing import ToyEnv, ToySettings, ToySuite, replay_suite, stochastic_suite, toy_suite
from turnpoint.testing.harness import make_rollouts, random_agent
from turnpoint.testing.scripted_policy import ScriptedPolicy


def fault_of(
    action: str, *, level: str = "moves", suite=None, turn: int = 1
) -> tuple[str | None, dict[str, float]]:
    """What is wrong with an action before turn 1 of an episode in which the agent looks around."""
    suite = suite or toy_suite()
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()))
    tally = Tally()
    verifier = Verifier(VerifySettings(level=level), rollouts, tally)

    async def go():
        episode = await rollouts.play(suite.tasks("train")[0], 0)
        return await verifier.fault(situation(episode, turn), action)

    return asyncio.run(go()), tally.take()


def first_actions(suite) -> tuple[set[str], set[str]]:
    """Actions that bring the task forward before turn 1, and the admissible others."""
    rollouts, _ = make_rollouts(suite, ScriptedPolicy(random_agent()))
    episode = asyncio.run(rollouts.play(suite.tasks("train")[0], 0))
    env = suite.make()
    env.reset(episode.task)
    env.step(episode.turns[0].executed)
    best = set(env.best_actions("full"))
    return best, set(episode.turns[1].observation.admissible) - best


def test_the_levels() -> None:
    best, others = first_actions(toy_suite())
    assert fault_of("fly to the moon")[0] == "refused"
    assert fault_of("fly to the moon", level="exists")[0] == "refused"
    for action in best:
        assert fault_of(action, level="closer")[0] is None
    for action in others:
        assert fault_of(action, level="exists")[0] is None
        assert fault_of(action, level="closer")[0] in ("unmoved", "not_closer")


def test_costs_are_counted_by_themselves() -> None:
    best, _ = first_actions(toy_suite())
    action = sorted(best)[0]
    _, native = fault_of(action)
    assert native == {"verify/interactions": 1, "verify/verified": 1}
    _, replayed = fault_of(action, suite=replay_suite(), turn=1)
    assert replayed == {"verify/interactions": 1, "verify/replayed_turns": 1, "verify/verified": 1}


def test_what_moves() -> None:
    def step(text: str, key: str | None, done: bool = False) -> Step:
        return Step(Observation(text, ("a",), key), 0.0, done)

    seen = Observation("here", ("a",), "1")
    assert not moved(seen, step("here again", "1"))
    assert moved(seen, step("here", "2"))
    assert moved(seen, step("here", "1", done=True))
    assert moved(seen, step("there", None))
    assert not moved(Observation("here", ("a",)), step("here", "2"))


def test_unverified_turns_are_dropped_and_counted(play, scripted_teacher) -> None:
    """The teacher names the last admissible action; "wait", where it is listed, moves nothing."""
    names = {"teacher": scripted_teacher(recovery=lambda where: "wait"), "script": random_agent()}
    free = play(PivotOPDSettings(group=4, recovery_turns=1), **names)
    tried = play(PivotOPDSettings(group=4, recovery_turns=1, verify={"level": "closer"}), **names)
    skipped = sum(v for k, v in tried.tally.items() if k.startswith("pivots_skipped/unverified"))
    assert skipped > 0
    assert tried.tally.get("pivots_used", 0) + skipped == free.tally["pivots_used"]
    used = [p for g in tried.groups for e in g.episodes for p in e.pivots if p.resolved]
    assert len(used) == tried.tally.get("pivots_used", 0)
    ended = sum(v for k, v in tried.tally.items() if k.startswith("recovery_ended/unverified"))
    assert ended == tried.tally["recovery_jobs"]
    assert not [row for row in tried.rows if row.kind == RowKind.RECOVERY]
    assert tried.tally["verify/interactions"] > 0
    assert [r.response_ids for r in tried.rows] == [
        r.response_ids for r in free.rows if r.kind != RowKind.RECOVERY
    ]


def test_unverified_turns_can_count_for_less(play) -> None:
    settings = PivotOPDSettings(group=4, recovery_turns=0, verify={"level": "closer", "unverified": 0.25})
    suite = toy_suite()
    erring = {"knowledge": "full", "error": {"actions": 0.5}}
    played = play(settings, teacher=OracleTeacherSettings.model_validate(erring).build(suite), suite=suite)
    scores = {p.score for g in played.groups for e in g.episodes for p in e.pivots if p.resolved}
    assert scores == {None, 0.25}
    assert not any(name.startswith("pivots_skipped/unverified") for name in played.tally)


@pytest.mark.parametrize("suite", [toy_suite(), replay_suite()], ids=["snapshots", "replay"])
def test_what_the_exact_oracle_names_is_always_verified(play, suite) -> None:
    settings = PivotOPDSettings(group=4, recovery_turns=2, verify={"level": "moves"})
    played = play(settings, teacher=OracleTeacherSettings(knowledge="full").build(suite), suite=suite)
    assert {k for k in played.tally if k.startswith("verify/")} - {"verify/replayed_turns"} == {
        "verify/interactions",
        "verify/verified",
    }
    assert played.tally["verify/verified"] > played.tally["pivots_used"] > 0


def test_a_state_that_cannot_be_brought_back_is_a_reason(play, scripted_teacher) -> None:
    class Forgets(ToyEnv):
        def restore(self, snapshot):
            raise RuntimeError("the corridor was rebuilt")

    played = play(
        PivotOPDSettings(group=4, recovery_turns=0, verify={}),
        teacher=scripted_teacher(),
        suite=ToySuite(ToySettings(), Forgets),
    )
    assert played.tally["pivots_skipped/unverified_not_restored"] > 0
    assert played.tally["pivots_used"] == 0


def test_settings_that_cannot_work_are_refused(play) -> None:
    with pytest.raises(ConfigError, match=r"method\.verify to null"):
        play(
            PivotOPDSettings(group=2, recovery_turns=1, verify={}), teacher=object(), suite=stochastic_suite()
        )
    with pytest.raises(ConfigError, match="set it to moves"):
        play(
            PivotOPDSettings(group=2, verify={"level": "closer"}),
            teacher=object(),
            suite=toy_suite(oracle=False),
        )
