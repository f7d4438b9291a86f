from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.methods.pivotrl import PivotRLSettings, same_action
from turnpoint.prompts import PromptSettings
from turnpoint.records import EpisodeWriter, Observation, Turn, read_episodes
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing import stochastic_suite, toy_suite
from turnpoint.testing.episodes import play_actions, play_oracle

SUITE = {"rooms": 3}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The oracle's episodes of six tasks, and a failure."""
    suite = toy_suite(**SUITE)
    env = suite.make()
    path = tmp_path / "episodes.jsonl"
    with EpisodeWriter(path) as writer:
        for task in suite.tasks("train")[:6]:
            writer.write(play_oracle(env, task))
        writer.write(play_actions(env, suite.tasks("train")[6], ["wait"] * 3))
    return path


def run(play, settings, **options):
    return play(settings, suite=toy_suite(**SUITE), prompt=PromptSettings(history=2), **options)


def test_kept_turns_are_those_whose_answers_differ_and_are_not_mastered(play, recorded) -> None:
    settings = PivotRLSettings(episodes=recorded, group=6, ceiling=0.6)
    played = run(play, settings)
    kept = {row.episode for row in played.rows}
    assert kept
    for group in played.groups:
        rewards = np.array([e.total_reward for e in group.episodes])
        assert len(rewards) == 6
        pivot = np.ptp(rewards) > 0 and rewards.mean() < 0.6
        for episode, reward in zip(group.episodes, rewards, strict=True):
            assert (episode.id in kept) == pivot
            if pivot:
                row = next(r for r in played.rows if r.episode == episode.id)
                expected = (reward - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
                np.testing.assert_allclose(row.advantages, expected)
    assert played.tally["turns_tried"] == len(played.groups)
    assert 0 < played.tally["turns_kept"] < len(played.groups)
    trained = sum(len(row.response_ids) for row in played.rows)
    assert trained + played.tally["dropped_tokens/not_pivotal"] == played.sampled


def test_answers_read_the_recorded_context_and_nobody_plays_on(play, recorded) -> None:
    played = run(play, PivotRLSettings(episodes=recorded, group=2))
    originals = {e.id: e for e in read_episodes(recorded)}
    assert played.groups
    for group in played.groups:
        for episode in group.episodes:
            (turn,) = episode.turns
            original = originals[episode.forked_from.episode]
            assert episode.forked_from.turn == turn.index
            assert turn.observation == original.turns[turn.index].observation
            expected = played.scorer.prompter.messages(
                original.task, original.turns[: turn.index], turn.observation
            )
            assert turn.messages == expected


def test_reward_is_agreement_with_the_recorded_action(play, recorded) -> None:
    played = run(play, PivotRLSettings(episodes=recorded, group=4))
    seen = set()
    for group in played.groups:
        for episode in group.episodes:
            (turn,) = episode.turns
            assert turn.reward == float(turn.valid and turn.executed in turn.gold_actions)
            seen.add(turn.reward)
    assert seen == {0.0, 1.0}


@pytest.mark.parametrize("reward", ["distance", "either"])
def test_functional_reward_is_progress_by_the_oracle(play, recorded, reward) -> None:
    played = run(play, PivotRLSettings(episodes=recorded, group=6, reward=reward))
    originals, env = {e.id: e for e in read_episodes(recorded)}, toy_suite(**SUITE).make()
    for group in played.groups:
        for episode in group.episodes:
            (turn,) = episode.turns
            env.reset(episode.task)
            for past in originals[episode.forked_from.episode].turns[: turn.index]:
                env.step(past.executed)
            before = env.distance()
            after = env.step(turn.executed) and env.distance()
            progress = turn.valid and after is not None and after < before
            same = turn.executed in turn.gold_actions
            assert turn.reward == float(progress or (reward == "either" and same))


def test_the_steps_of_an_epoch_use_every_episode_once_and_repeat_exactly(stepper, recorded) -> None:
    suite = toy_suite(**SUITE)

    def make():
        return stepper(
            PivotRLSettings(episodes=recorded, group=2), suite=suite, tasks=suite.tasks("train")[:2]
        )

    one, seen = make(), []
    for _ in range(3):
        played = one.step()
        seen.append({g.episodes[0].forked_from.episode for g in played.groups})
    assert [len(s) for s in seen] == [2, 2, 2]
    assert len(set().union(*seen)) == 6
    again = make().step(2)
    assert [r.response_ids for r in again.rows] == [r.response_ids for r in played.rows]
    later = one.step()
    assert {e.id for g in later.groups for e in g.episodes}.isdisjoint(
        e.id for g in played.groups for e in g.episodes
    )


def test_turns_per_episode_limits_what_is_tried(play, recorded) -> None:
    played = run(play, PivotRLSettings(episodes=recorded, group=2, turns_per_episode=2))
    assert len(played.groups) == 3 * 2


def test_turns_whose_answers_agree_are_dropped_and_that_is_said_aloud(play, recorded) -> None:
    def script(prompt: str, seed: int) -> str:
        return "<action>wait</action>"

    played = run(play, PivotRLSettings(episodes=recorded, group=3), script=script)
    assert played.rows == []
    assert played.tally["signal_empty/pivots"] == 1
    assert played.tally["dropped_tokens/not_pivotal"] == played.sampled


def test_states_that_cannot_be_brought_back_cost_their_turn(play, recorded, tmp_path) -> None:
    """The file was recorded in a game with other rooms: the oracle is asked only about verified states."""
    path = tmp_path / "other.jsonl"
    text = recorded.read_text().replace("Room 1.", "Room 9.")
    path.write_text(text)
    played = run(play, PivotRLSettings(episodes=path, group=3, reward="distance"))
    assert played.tally["turns_skipped/unjudged"] > 0
    dropped = sum(v for k, v in played.tally.items() if k.startswith("dropped_tokens/"))
    assert sum(len(row.response_ids) for row in played.rows) + dropped == played.sampled


def test_a_turn_with_a_single_answer_in_time_is_dropped(play, recorded, monkeypatch) -> None:
    from turnpoint.rollouts.branch import Branch

    sample = Branch.sample

    async def late(self, *args, **options):
        if not self.episode.id.endswith("-0"):
            raise TimeoutError
        return await sample(self, *args, **options)

    monkeypatch.setattr(Branch, "sample", late)
    played = run(play, PivotRLSettings(episodes=recorded, group=3))
    assert played.rows == []
    assert played.tally["answers_skipped/time_out"] == 2 * len(played.groups) > 0
    assert played.tally["dropped_tokens/too_few_answers"] == played.sampled > 0


def test_prompts_that_are_too_long_are_skipped(play, recorded) -> None:
    played = play(
        PivotRLSettings(episodes=recorded, group=3),
        suite=toy_suite(**SUITE),
        prompt=PromptSettings(history=2, max_prompt_tokens=10),
        rollout=RolloutSettings(max_response_tokens=50),
    )
    assert played.groups == []
    assert played.rows == []
    assert played.sampled == 0
    assert played.tally["turns_skipped/prompt_too_long"] > 0


def test_same_action_knows_gold_actions_and_spelling() -> None:
    seen = Observation("", admissible=("go to drawer 1", "look"))

    def turn(action, gold=()):
        return Turn(0, seen, action=action, executed=action or "", gold_actions=gold)

    assert same_action(turn("Go to the drawer 1"), turn("go to drawer 1"))
    assert not same_action(turn("look"), turn("go to drawer 1"))
    assert same_action(turn("look"), turn("go to drawer 1", gold=("look",)))
    assert not same_action(turn(None), turn("look"))


def test_settings_that_cannot_work_are_refused(play, recorded, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"method\.reward to action"):
        play(PivotRLSettings(episodes=recorded, reward="distance"), suite=stochastic_suite())
    with pytest.raises(ConfigError, match="cannot be read"):
        run(play, PivotRLSettings(episodes=tmp_path / "none.jsonl"))
    only_failures = tmp_path / "failures.jsonl"
    env = toy_suite(**SUITE).make()
    with EpisodeWriter(only_failures) as writer:
        writer.write(play_actions(env, toy_suite(**SUITE).tasks("train")[0], ["wait"]))
    with pytest.raises(ConfigError, match="no successful episode"):
        run(play, PivotRLSettings(episodes=only_failures))
