"""TextArena itself: games alone and against others, invalid moves, rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnpoint.envs import EnvDataError
from turnpoint.envs.adapters.suite import AdapterSuite
from turnpoint.envs.adapters.textarena.settings import TextArenaSettings
from turnpoint.envs.check import check_env
from turnpoint.records import Step

pytestmark = pytest.mark.adapters


def make(game_id: str, **settings: Any) -> AdapterSuite:
    return TextArenaSettings.model_validate({"game_id": game_id, "processes": 0, **settings}).build()


def test_a_game_for_one_keeps_the_contract_for_five_hundred_resets() -> None:
    report = check_env(make("GuessTheNumber-v0", processes=1), tasks=3)
    assert report.ok, report.failures


@pytest.mark.parametrize(("game_id", "player"), [("TicTacToe-v0", 0), ("KuhnPoker-v0-short", 1)])
def test_games_for_two_keep_the_contract(game_id: str, player: int) -> None:
    report = check_env(make(game_id, player=player), tasks=2, quick=True)
    assert report.ok, report.failures


def test_the_number_is_found_by_halving() -> None:
    suite = make("GuessTheNumber-v0")
    env = suite.make()
    for task in suite.tasks("train")[:4]:
        env.reset(task)
        low, high = 1, 20
        while True:
            guess = (low + high) // 2
            step = env.step(str(guess))
            if step.done:
                break
            low, high = (guess + 1, high) if "higher" in step.observation.text else (low, guess - 1)
        assert (step.reward, step.success) == (1.0, True)


def test_an_invalid_move_is_said_and_a_second_one_ends_the_game() -> None:
    suite = make("GuessTheNumber-v0")
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    first = env.step("seven")
    assert not first.effective
    assert "invalid move" in first.observation.text
    assert not first.done
    second = env.step("[99]")
    assert (second.done, second.success, second.effective) == (True, False, False)


def tic_tac_toe(opponent: str, actions: list[str], moves: list[str], **more: Any) -> Step:
    suite = make("TicTacToe-v0", opponent=opponent, opponent_actions=actions, **more)
    env = suite.make()
    env.reset(suite.tasks("train")[0])
    for move in moves:
        step = env.step(move)
        if step.done:
            break
    return step


def test_a_fixed_opponent_plays_its_list() -> None:
    won = tic_tac_toe("fixed", ["[3]", "[5]"], ["0", "1", "2"])
    assert (won.reward, won.success) == (1.0, True)
    lost = tic_tac_toe("fixed", ["[3]", "[4]", "[5]"], ["0", "1", "8"])
    assert (lost.reward, lost.success) == (-1.0, False)
    assert "won" in lost.observation.text


def test_a_random_opponent_plays_what_is_allowed_and_the_same_for_the_same_task() -> None:
    suite = make("TicTacToe-v0")
    env, shown = suite.make(), []
    for task in [*suite.tasks("train")[:6], suite.tasks("train")[0]]:
        env.reset(task)
        texts = []
        for cell in range(9):
            step = env.step(f"[{cell}]")
            texts.append(step.observation.text)
            assert "Player 1 attempted an invalid move" not in step.observation.text
            if step.done:
                break
        shown.append(texts)
    assert shown[0] == shown[-1]
    assert len({tuple(texts) for texts in shown}) > 2


def test_an_opponent_may_be_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import re\n\n\ndef last_free(observation, draw):\n"
        "    return re.findall(r\"'(\\[\\d\\])'\", observation)[-1]\n"
    )
    (tmp_path / "rivals_of_mine.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    step = tic_tac_toe("rivals_of_mine:last_free", [], ["4"])
    assert "[Player 1] [8]" in step.observation.text


def test_the_agent_may_be_the_second_player() -> None:
    suite = make("TicTacToe-v0", player=1, opponent="fixed", opponent_actions=["[4]", "[0]", "[8]"])
    env = suite.make()
    assert "[Player 0] [4]" in env.reset(suite.tasks("train")[0]).text
    env.step("[1]")
    lost = env.step("[2]")
    assert (lost.reward, lost.done, lost.success) == (-1.0, True, False)


@pytest.mark.parametrize(
    ("game_id", "settings", "says"),
    [
        ("Tetris-v0", {}, "TextArena does not have"),
        ("Othello-v0", {}, "set env.opponent_actions"),
        ("ThreePlayerTicTacToe-v0", {}, "not for one or two players"),
        ("GuessTheNumber-v0", {"player": 1}, "has one player"),
        ("GuessTheNumber-v0", {"options": {"dice": 2}}, "cannot be made with env.options"),
    ],
)
def test_games_that_cannot_be_played_are_refused(game_id: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvDataError, match=says):
        make(game_id, **settings)
