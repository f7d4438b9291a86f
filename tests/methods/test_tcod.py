from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from turnpoint.config import ConfigError
from turnpoint.methods import Teachers
from turnpoint.methods.tcod import TCODSettings
from turnpoint.records import EpisodeWriter, StopReason
from turnpoint.testing import play_oracle, replay_suite, stochastic_suite, toy_suite
from turnpoint.testing.scripted_scoring import ScriptedScoring

TEACHER = Teachers(scoring={"": ScriptedScoring()})


def never_done(prompt: str, seed: int) -> str:
    return "I do not know."


def test_front_to_back_grows_by_one_turn_every_interval(stepper) -> None:
    run = stepper(TCODSettings(interval=2), scoring=ScriptedScoring(), script=never_done)
    for step, turns in [(0, 1), (1, 1), (2, 2), (3, 2), (10, 6), (37, 19), (38, 20), (90, 20)]:
        played = run.step(step)
        assert {len(e.turns) for g in played.groups for e in g.episodes} == {turns}
        stop = StopReason.MAX_TURNS if turns == 20 else StopReason.DEPTH_CAP
        assert {e.stop for g in played.groups for e in g.episodes} == {stop}
        assert played.tally["depth"] == turns
        assert len(played.rows) == turns * 3


@pytest.mark.parametrize("suite", [toy_suite, replay_suite])
def test_back_to_front_hands_the_expert_fewer_turns(stepper, suite) -> None:
    game = suite()
    tasks = game.tasks("train")[:3]
    lengths = {t.id: len(play_oracle(game.make(), t, knowledge="observed").turns) for t in tasks}
    run = stepper(
        TCODSettings(direction="b2f", interval=2, group=2),
        scoring=ScriptedScoring(lambda e, t: -1.0),
        suite=game,
        tasks=tasks,
    )
    for step in (0, 1, 2, 3, 40):
        played = run.step(step)
        for group in played.groups:
            lead = max(0, lengths[group.task.id] - 1 - step // 2)
            for episode in group.episodes:
                assert sum(turn.reused for turn in episode.turns) == lead
                assert [row.turn for row in played.rows if row.episode == episode.id] == list(
                    range(lead, len(episode.turns))
                )
                assert all(not turn.response_ids for turn in episode.turns[:lead])
        for row in played.rows:
            np.testing.assert_array_equal(row.advantages, -1.0 - row.old_logprobs)


def test_the_student_reads_the_experts_replies_as_its_own(stepper) -> None:
    run = stepper(TCODSettings(direction="b2f"), scoring=ScriptedScoring())
    played = run.step(0)
    episode = next(e for g in played.groups for e in g.episodes if sum(t.reused for t in e.turns) > 1)
    lead = [turn for turn in episode.turns if turn.reused]
    prompt = played.policy.tokenizer.decode(episode.turns[len(lead)].prompt_ids)
    for turn in lead:
        assert f"[assistant]<action>{turn.executed}</action>" in prompt


def test_recorded_demonstrations_are_the_expert(stepper, tmp_path) -> None:
    game = toy_suite()
    tasks = game.tasks("train")[:3]
    path = tmp_path / "experts.jsonl"
    with EpisodeWriter(path) as writer:
        for task in tasks[:2]:
            writer.write(play_oracle(game.make(), task))
    settings = TCODSettings(direction="b2f", demonstrations=path)
    played = stepper(settings, scoring=ScriptedScoring(), suite=game, tasks=tasks).step(0)
    leads = [sum(t.reused for t in g.episodes[0].turns) for g in played.groups]
    expected = [len(play_oracle(game.make(), task).turns) - 1 for task in tasks[:2]]
    assert leads == [*expected, 0]
    assert played.tally["tasks_without_expert"] == 1


def test_a_demonstration_of_another_version_of_the_game_is_played_anew(stepper, tmp_path) -> None:
    game = replay_suite()
    (task,) = game.tasks("train")[:1]
    episode = play_oracle(game.make(), task, knowledge="observed")
    episode.turns[0].observation = type(episode.turns[0].observation)("another corridor")
    with EpisodeWriter(tmp_path / "x.jsonl") as writer:
        writer.write(episode)
    settings = TCODSettings(direction="b2f", demonstrations=tmp_path / "x.jsonl")
    played = stepper(settings, scoring=ScriptedScoring(), suite=game, tasks=[task]).step(0)
    assert played.tally["restore_failed/restore_mismatch"] == 1
    assert played.rows


def test_requirements(tmp_path) -> None:
    b2f = TCODSettings(direction="b2f")
    with pytest.raises(ConfigError, match=r"set method\.direction to f2b"):
        b2f.check(stochastic_suite().capabilities, TEACHER)
    with pytest.raises(ConfigError, match=r"method\.demonstrations"):
        b2f.check(toy_suite(oracle=False).capabilities, TEACHER)
    with pytest.raises(ConfigError, match="cannot be read"):
        TCODSettings(direction="b2f", demonstrations=tmp_path / "none").check(
            toy_suite().capabilities, TEACHER
        )
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ConfigError, match="no successful episode"):
        TCODSettings(direction="b2f", demonstrations=tmp_path / "empty.jsonl").check(
            toy_suite().capabilities, TEACHER
        )
    with pytest.raises(ValidationError, match="direction: b2f"):
        TCODSettings(demonstrations=tmp_path / "empty.jsonl")
