"""Small word-level agents can read every observation and give every action back unchanged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from turnpoint.envs.sokoban.settings import SokobanSettings
from turnpoint.policy.small.vocabulary import closed_vocabulary, count_unknown, split_words
from turnpoint.prompts import resolve_action


@pytest.mark.parametrize(
    "changes",
    [{}, {"ascii": True, "coordinates": True}, {"move_budget": 16, "end_when_unsolvable": False}],
)
def test_the_vocabulary_is_closed(changes: dict[str, Any]) -> None:
    suite, rng = SokobanSettings(**changes).build(), random.Random(0)
    env, words = suite.make(), closed_vocabulary(suite.vocabulary_texts(), 200)
    for task in suite.tasks("train")[:30]:
        observation = env.reset(task)
        texts = [task.instruction, suite.instructions, observation.text]
        for _ in range(suite.max_turns):
            junk = rng.choice(["up, up, up", "left, down", "what"])
            step = env.step(junk if rng.random() < 0.3 else rng.choice(observation.admissible or (junk,)))
            observation = step.observation
            texts += [observation.text, *(observation.admissible or ())]
        assert not count_unknown(texts, words)


def test_every_cell_is_a_word_of_its_own() -> None:
    suite = SokobanSettings(ascii=True).build()
    text = suite.make().reset(suite.tasks("train")[0]).text
    rows = text.splitlines()[1:]
    assert [len(split_words(row)) for row in rows] == [6] * 6
    assert text.isascii()


def test_actions_survive_the_small_tokenizer() -> None:
    pytest.importorskip("transformers")
    from turnpoint.policy.small.tokenizer import make_tokenizer

    suite = SokobanSettings().build()
    tokenizer = make_tokenizer(closed_vocabulary(suite.vocabulary_texts(), 200), 512)
    admissible = suite.make().reset(suite.tasks("train")[1]).admissible
    assert admissible
    for action in admissible:
        assert tokenizer.decode(tokenizer.encode(action)) == action
        assert resolve_action(action.upper(), admissible).action == action
