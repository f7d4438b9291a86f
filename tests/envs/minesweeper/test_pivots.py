"""A pivotal mistake: opening a cell that may be mined while another one is provably safe."""

from __future__ import annotations

import asyncio
import random

from turnpoint.envs.minesweeper.settings import MinesweeperSettings
from turnpoint.envs.minesweeper.suite import MinesweeperSuite
from turnpoint.records import Episode, Task, Turn
from turnpoint.teachers.oracle import OracleTeacher, OracleTeacherSettings


def risky_play(suite: MinesweeperSuite, task: Task, rng: random.Random) -> tuple[Episode, list[int]]:
    """Random opens, and the turns at which a risk was taken without need, counted from the probabilities."""
    env, mistakes = suite.make(), []
    observation = env.reset(task)
    episode = Episode("play", task)
    for index in range(suite.max_turns):
        chances = env.mine_probabilities()
        action = rng.choice([env.best_actions("observed")[0], rng.choice(list(chances))])
        turn = Turn(index, observation, executed=action, snapshot=env.snapshot())
        if chances[action] > 0 and min(chances.values()) == 0:
            mistakes.append(index)
        step = env.step(action)
        episode.turns.append(turn)
        episode.final_observation = observation = step.observation
        if step.done:
            break
    episode.final_snapshot = env.snapshot()
    return episode, mistakes


def test_the_oracle_teacher_names_needless_risks_and_a_safe_cell_instead() -> None:
    suite, rng = MinesweeperSettings().build(), random.Random(3)
    teacher = OracleTeacher(suite, OracleTeacherSettings())
    env, named = suite.make(), 0
    for task in suite.tasks("train")[:80]:
        episode, mistakes = risky_play(suite, task, rng)
        report = asyncio.run(teacher.analyse(episode, 10))
        found = {} if report is None else {c.turn: c.action for c in report.candidates}
        needless = []
        for turn, gold in found.items():
            env.restore(episode.turns[turn].snapshot)
            chances = env.mine_probabilities()
            assert chances[gold] == min(chances.values()) < chances[episode.turns[turn].executed]
            needless += [turn] if chances[gold] == 0 else []
        assert sorted(needless) == mistakes
        named += len(needless)
    assert named > 30
