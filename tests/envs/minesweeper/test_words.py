"""Small word-level agents can read every observation and, without brackets, give every action back unchanged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from turnpoint.envs.minesweeper.settings import MinesweeperSettings
from turnpoint.policy.small.vocabulary import closed_vocabulary, count_unknown, split_words


@pytest.mark.parametrize("changes", [{}, {"labels": False, "brackets": False}, {"rows": 3, "columns": 12}])
def test_the_vocabulary_is_closed(changes: dict[str, Any]) -> None:
    suite, rng = MinesweeperSettings(**changes).build(), random.Random(0)
    env, words = suite.make(), closed_vocabulary(suite.vocabulary_texts(), 250)
    for task in suite.tasks("train")[:30]:
        observation = env.reset(task)
        texts = [task.instruction, suite.instructions, observation.text]
        for _ in range(suite.max_turns):
            junk = rng.choice(["1 1", "(2, 2)", "what"])
            step = env.step(junk if rng.random() < 0.3 else rng.choice(observation.admissible or (junk,)))
            observation = step.observation
            texts += [observation.text, *(observation.admissible or ())]
        assert not count_unknown(texts, words)


def test_every_cell_is_a_word_of_its_own() -> None:
    suite = MinesweeperSettings(labels=False).build()
    rows = suite.make().reset(suite.tasks("train")[0]).text.splitlines()[1:]
    assert [len(split_words(row)) for row in rows] == [6] * 6


def test_actions_survive_the_small_tokenizer() -> None:
    pytest.importorskip("transformers")
    from turnpoint.policy.small.tokenizer import make_tokenizer

    suite = MinesweeperSettings(brackets=False).build()
    tokenizer = make_tokenizer(closed_vocabulary(suite.vocabulary_texts(), 250), 512)
    admissible = suite.make().reset(suite.tasks("train")[1]).admissible
    assert admissible
    for action in admissible:
        assert tokenizer.decode(tokenizer.encode(action)) == action
