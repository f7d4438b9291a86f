"""Episodes as weighted token sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from turnpoint.config import ConfigError
from turnpoint.policy.small import closed_vocabulary, make_tokenizer
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings, parse_reflection
from turnpoint.records import Episode, Reflection, Turn
from turnpoint.testing import toy_suite
from turnpoint.training.demonstrations import make_demonstrations
from turnpoint.training.demonstrator import (
    DETOUR_TURNS,
    NOISE_TURNS,
    SKIPPED_TURNS,
    DemonstrationSettings,
)
from turnpoint.training.sequences import Example, SequenceBuilder

pytest.importorskip("transformers")

SUITE = toy_suite(train_tasks=16)
CHAT = Prompter(PromptSettings(compact=True, show_admissible=False))
WINDOW = Prompter(PromptSettings(compact=True, show_admissible=False, history=1))
TOKENIZER = make_tokenizer(closed_vocabulary([*SUITE.vocabulary_texts(), *CHAT.vocabulary_texts()], 200), 512)
RENDERER = ChatRenderer(TOKENIZER)


def demonstrate(**settings: Any) -> list[Episode]:
    play = DemonstrationSettings(**settings)
    return list(make_demonstrations(SUITE, CHAT, SUITE.tasks("train"), play, seed=3, limit=30))


def trained_texts(example: Example) -> list[str]:
    """Text of each run of tokens with full weight."""
    ids, weights = example
    full = np.concatenate([[False], weights >= 1, [False]])
    edges = np.flatnonzero(np.diff(full.astype(int)))
    return [TOKENIZER.decode(ids[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def replies(turns: list[Turn]) -> list[str]:
    return [TOKENIZER.decode(TOKENIZER.encode(f"{turn.response}<|im_end|>")) for turn in turns]


def test_a_conversation_is_one_sequence_with_all_replies_and_ends() -> None:
    for episode in demonstrate(noise=0, hinted=0):
        (example,) = SequenceBuilder(RENDERER, CHAT).build(episode)
        assert trained_texts(example) == replies(episode.turns)
        conversation = CHAT.messages(episode.task, episode.turns[:-1], episode.turns[-1].observation)
        assert tuple(example[0][: len(RENDERER.prompt_ids(conversation))]) == RENDERER.prompt_ids(
            conversation
        )


def test_prompts_have_the_observation_weight() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    ((_, weights),) = SequenceBuilder(RENDERER, CHAT, observation_weight=0.25).build(episode)
    assert set(weights) == {0.25, 1.0}
    ((_, weights),) = SequenceBuilder(RENDERER, CHAT).build(episode)
    assert set(weights) == {0.0, 1.0}


def test_noise_and_withheld_turns_are_context_only() -> None:
    for episode in demonstrate(noise=0.3, hinted=0, recoveries=0.3):
        left_out = {*episode.info[NOISE_TURNS], *episode.info[SKIPPED_TURNS]}
        kept = [turn for turn in episode.turns if turn.index not in left_out]
        examples = SequenceBuilder(RENDERER, CHAT).build(episode)
        assert [text for example in examples for text in trained_texts(example)] == replies(kept)
        (everything,) = SequenceBuilder(RENDERER, CHAT, train_noise=True).build(episode)
        assert len(everything[0]) == max(len(ids) for ids, _ in [everything, *examples])


@pytest.mark.parametrize("prompter", [CHAT, WINDOW], ids=["chat", "window"])
def test_a_reflection_is_one_more_reply_and_reused_turns_are_context(prompter: Prompter) -> None:
    play = DemonstrationSettings(noise=0, hinted=0, failing=1.0, blunders=0.5)
    episodes = list(make_demonstrations(SUITE, prompter, SUITE.tasks("train"), play, seed=3, limit=30))
    reflected = [episode for episode in episodes if episode.reflection is not None]
    assert reflected
    for episode in reflected:
        builder = SequenceBuilder(RENDERER, prompter)
        examples = builder.build(episode)
        assert (len(examples) == 1) == (prompter is CHAT)
        text = trained_texts(examples[-1])[-1]
        read = parse_reflection(text.removesuffix("<|im_end|>"), len(episode.turns))
        assert (read.pivot, read.remark) == (episode.reflection.pivot, episode.reflection.remark)
        assert builder.counts["reflections"] == 1
    for episode in episodes:
        if episode.attempt.index:
            examples = SequenceBuilder(RENDERER, prompter).build(episode)
            texts = [text for example in examples for text in trained_texts(example)]
            assert texts == replies(
                [t for t in episode.new_turns if t.index not in episode.info[NOISE_TURNS]]
            )


def test_a_reflection_that_could_not_be_read_is_not_trained() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    whole = SequenceBuilder(RENDERER, CHAT).build(episode)
    episode.reflection = Reflection(response="who knows", valid=False)
    again = SequenceBuilder(RENDERER, CHAT).build(episode)
    assert [ids.tolist() for ids, _ in again] == [ids.tolist() for ids, _ in whole]


def test_hints_apart() -> None:
    for episode in demonstrate(noise=0, hinted=1, hinted_turns=0.5):
        hinted = [turn for turn in episode.turns if turn.hint]
        detours = episode.info[DETOUR_TURNS]
        examples = SequenceBuilder(RENDERER, CHAT, hints="separate").build(episode)
        apart = examples[len(examples) - len(hinted) :]
        for (ids, weights), turn in zip(apart, hinted, strict=True):
            assert trained_texts((ids, weights)) == replies([turn])
            assert TOKENIZER.decode(ids).count("Hint:") == 1
        plain = examples[: len(examples) - len(hinted)]
        assert all("Hint:" not in TOKENIZER.decode(ids) for ids, _ in plain)
        kept = [turn for turn in episode.turns if turn.index not in detours]
        assert [text for example in plain for text in trained_texts(example)] == replies(kept)


def test_hints_inline() -> None:
    for episode in demonstrate(noise=0, hinted=1, hinted_turns=0.5):
        (example,) = SequenceBuilder(RENDERER, CHAT, hints="inline").build(episode)
        text = TOKENIZER.decode(example[0])
        assert text.count("Hint:") == sum(turn.hint is not None for turn in episode.turns)
        assert trained_texts(example) == replies(episode.turns)
        for turn in episode.turns:
            if turn.hint:
                (reply,) = replies([turn])
                assert f"Hint: {turn.executed} Act: <|im_end|><|im_start|>assistant {reply}" in text


def test_hints_off() -> None:
    for episode in demonstrate(noise=0, hinted=1):
        for ids, _ in SequenceBuilder(RENDERER, CHAT, hints="off").build(episode):
            assert "Hint:" not in TOKENIZER.decode(ids)


def test_prompts_of_a_window_are_one_sequence_per_turn() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    examples = SequenceBuilder(RENDERER, WINDOW).build(episode)
    assert [trained_texts(example) for example in examples] == [[reply] for reply in replies(episode.turns)]


def test_recorded_messages_need_no_prompter_and_give_the_same() -> None:
    for episode in demonstrate(noise=0, hinted=0):
        turns = [
            replace(turn, messages=CHAT.messages(episode.task, episode.turns[:i], turn.observation))
            for i, turn in enumerate(episode.turns)
        ]
        recorded = replace(episode, turns=turns)
        (mine,), (theirs,) = (
            SequenceBuilder(RENDERER, prompter).build(e)
            for prompter, e in ((None, recorded), (CHAT, episode))
        )
        assert mine[0].tolist() == theirs[0].tolist()
        assert mine[1].tolist() == theirs[1].tolist()


def test_token_ids_of_another_model_are_not_used() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    foreign = replace(
        episode, turns=[replace(t, response_ids=(7, 7, 7), prompt_ids=(9,)) for t in episode.turns]
    )
    (mine,), (theirs,) = (SequenceBuilder(RENDERER, CHAT).build(e) for e in (episode, foreign))
    assert mine[0].tolist() == theirs[0].tolist()


def test_reused_turns_are_context_and_cut_off_replies_do_not_end() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    first, *rest, last = episode.turns
    changed = replace(episode, turns=[replace(first, reused=True), *rest, replace(last, truncated=True)])
    (example,) = SequenceBuilder(RENDERER, CHAT).build(changed)
    expected = replies([*rest, last])
    expected[-1] = expected[-1].replace("<|im_end|>", "").strip()
    assert trained_texts(example) == expected


def test_a_branch_without_its_history_is_refused() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    branch = replace(episode, turns=episode.turns[1:])
    with pytest.raises(ConfigError, match="cannot be rebuilt"):
        SequenceBuilder(RENDERER, CHAT).build(branch)


def test_turns_without_a_reply_are_counted() -> None:
    (episode, *_) = demonstrate(noise=0, hinted=0)
    builder = SequenceBuilder(RENDERER, CHAT)
    silent = [replace(turn, response="", executed="") for turn in episode.turns]
    assert builder.build(replace(episode, turns=silent)) == []
    assert builder.counts["no_response"] == len(silent)
