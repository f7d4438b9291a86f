"""States are brought back verbatim, or the difference is named."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs.protocol import EnvError
from turnpoint.envs.replay import Replay, ReplayMismatch, Sent, restore_turn
from turnpoint.records import Episode, Observation
from turnpoint.records.jsonl import episode_from_dict, episode_to_dict
from turnpoint.testing import play_actions, play_oracle, replay_suite, stochastic_suite, toy_suite
from turnpoint.testing.toy_game import ACTIONS


def test_every_turn_is_restored_with_snapshots_and_by_replay() -> None:
    for suite in (toy_suite(), replay_suite()):
        played = suite.make()
        for task in suite.tasks("train")[:5]:
            episode = play_oracle(played, task)
            other = suite.make()
            for turn in range(len(episode.turns) + 1):
                assert restore_turn(other, episode, turn) == episode.observation_at(turn)


@given(st.integers(0, 30), st.lists(st.sampled_from([*ACTIONS, "dance", ""]), max_size=12), st.data())
def test_play_goes_on_the_same_after_a_restore(number: int, actions: list[str], data: st.DataObject) -> None:
    suite = data.draw(st.sampled_from([toy_suite(), replay_suite()]))
    episode = play_actions(suite.make(), suite.tasks("train")[number], actions)
    turn = data.draw(st.integers(0, len(episode.turns)))
    env = suite.make()
    restore_turn(env, episode, turn)
    for index, past in enumerate(episode.turns[turn:], start=turn):
        assert env.step(past.executed).observation == episode.observation_at(index + 1)


def test_recorded_file_without_snapshots_is_replayed() -> None:
    suite = toy_suite()
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    loaded = episode_from_dict(episode_to_dict(episode))
    assert loaded.final_snapshot is None
    assert restore_turn(suite.make(), loaded, len(loaded.turns)) == episode.final_observation


def test_a_snapshot_that_was_sent_is_opened_where_it_is_restored() -> None:
    suite = toy_suite()
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    episode.turns[2].snapshot = Sent(pickle.dumps(episode.turns[2].snapshot))
    assert restore_turn(suite.make(), episode, 2) == episode.observation_at(2)
    episode.turns[2].snapshot = Sent(b"nonsense")
    with pytest.raises(EnvError, match="snapshot cannot be opened in this process"):
        restore_turn(suite.make(), episode, 2)


def tampered(snapshots: bool, **changes: object) -> Episode:
    suite = toy_suite(snapshots=snapshots)
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    turn = episode.turns[2]
    turn.observation = replace(turn.observation, **changes)  # type: ignore[arg-type]
    return episode


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"text": "You go left. Room 99."}, "text"),
        ({"admissible": ("wait",)}, "admissible actions"),
        ({"admissible": None}, "admissible actions"),
        ({"state_key": "elsewhere"}, "state key"),
    ],
)
def test_any_difference_is_named(snapshots: bool, changes: dict[str, object], field: str) -> None:
    episode = tampered(snapshots, **changes)
    with pytest.raises(ReplayMismatch) as caught:
        restore_turn(toy_suite(snapshots=snapshots).make(), episode, 2)
    assert (caught.value.turn, caught.value.field) == (2, field)
    assert caught.value.expected != caught.value.got


def test_replay_names_the_first_turn_that_differs_on_the_way() -> None:
    with pytest.raises(ReplayMismatch) as caught:
        restore_turn(replay_suite().make(), tampered(False, text="other"), 4)
    assert caught.value.turn == 2


def test_missing_state_key_is_not_a_difference() -> None:
    episode = tampered(False, state_key=None)
    assert restore_turn(replay_suite().make(), episode, 2).state_key is not None


def test_replay_notices_that_the_episode_ended_elsewhere() -> None:
    suite = replay_suite()
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    episode.turns[-1].done = False
    with pytest.raises(ReplayMismatch, match="done"):
        restore_turn(suite.make(), episode, len(episode.turns))


def test_mismatch_message_is_short_and_shows_where_texts_part() -> None:
    episode = tampered(False, text="x" * 5000)
    with pytest.raises(ReplayMismatch) as caught:
        restore_turn(replay_suite().make(), episode, 2)
    assert len(str(caught.value)) < 1000
    error = ReplayMismatch("e", 1, "text", "a" * 2000 + "b", "a" * 2000 + "c")
    assert error.expected.rstrip("'…").endswith("b")
    assert error.got.rstrip("'…").endswith("c")


def test_stochastic_game_without_snapshots_is_refused() -> None:
    suite = stochastic_suite()
    episode = play_actions(suite.make(), suite.tasks("train")[0], ["wait", "wait"])
    with pytest.raises(EnvError, match="not deterministic"):
        restore_turn(suite.make(), episode, 1)


def test_stochastic_game_with_snapshots_is_restored() -> None:
    suite = stochastic_suite(snapshots=True)
    episode = play_actions(suite.make(), suite.tasks("train")[0], ["go left", "go right"] * 4)
    for turn in range(9):
        assert restore_turn(suite.make(), episode, turn) == episode.observation_at(turn)


def test_turns_that_cannot_be_verified_are_refused() -> None:
    suite = replay_suite()
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    with pytest.raises(IndexError):
        restore_turn(suite.make(), episode, len(episode.turns) + 1)
    with pytest.raises(IndexError):
        restore_turn(suite.make(), episode, -1)
    episode.final_observation = None
    with pytest.raises(EnvError, match="no observation after its last turn"):
        restore_turn(suite.make(), episode, len(episode.turns))
    episode.turns = episode.turns[1:]
    with pytest.raises(EnvError, match="starts at turn 1"):
        restore_turn(suite.make(), episode, 1)


def test_episode_without_turns_restores_to_its_start() -> None:
    suite = replay_suite()
    task = suite.tasks("train")[0]
    expected = suite.make().reset(task)
    assert restore_turn(suite.make(), Episode("e", task), 0) == expected
    with pytest.raises(ReplayMismatch):
        restore_turn(suite.make(), Episode("e", task, final_observation=Observation("other")), 0)


def test_going_on_from_a_state_costs_only_the_turns_between() -> None:
    suite = replay_suite()
    episode = play_oracle(suite.make(), suite.tasks("train")[0])
    env = suite.make()
    executed: list[str] = []
    step = env.step
    env.step = lambda action: executed.append(action) or step(action)  # type: ignore[method-assign, func-returns-value]
    replay = Replay(env, episode)
    for turn in range(len(episode.turns) + 1):
        assert replay.seek(turn) == episode.observation_at(turn)
    assert executed == [turn.executed for turn in episode.turns]
    assert replay.seek(1) == episode.observation_at(1)


def test_replay_starts_over_after_a_mismatch() -> None:
    episode = tampered(False, text="other")
    replay = Replay(replay_suite().make(), episode)
    with pytest.raises(ReplayMismatch):
        replay.seek(2)
    assert replay.seek(1) == episode.observation_at(1)
