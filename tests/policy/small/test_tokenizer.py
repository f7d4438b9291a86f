"""The word-level tokenizer: closed vocabulary, readable decoding, a prefix-stable template."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.policy.small import closed_vocabulary, count_unknown, make_tokenizer, split_words
from turnpoint.policy.small.vocabulary import END, MARKS, UNKNOWN
from turnpoint.prompts import ChatRenderer, parse_action
from turnpoint.records import Message

pytest.importorskip("transformers")

TEXTS = [
    "-= Welcome to TextWorld, ALFRED! =-",
    "You see a cabinet 3, and a cup 12. There's nothing special about it.",
    "<action>go to cabinet 3</action>",
    "take cup 12 from cabinet 3",
    "click[b01x]",
]
WORDS = closed_vocabulary(TEXTS, 100)
TOKENIZER = make_tokenizer(WORDS, 64)


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_gives_the_text_back_up_to_white_space(text: str) -> None:
    assert squeezed(TOKENIZER.decode(encode(text))) == squeezed(text)


@given(st.lists(st.sampled_from(split_words(" ".join(TEXTS))), max_size=20).map(" ".join))
def test_any_words_survive_a_round_trip(text: str) -> None:
    assert encode(TOKENIZER.decode(encode(text))) == encode(text)


@pytest.mark.parametrize(
    "text", ["go to cabinet 3", "take cup 12 from cabinet 3", "<action>go to cabinet 3</action>"]
)
def test_actions_decode_exactly(text: str) -> None:
    assert TOKENIZER.decode(encode(text)) == text
    assert TOKENIZER.decode(encode(text), skip_special_tokens=True) == text


def test_decoded_replies_parse_to_the_action() -> None:
    ids = encode(f"<think>cup</think>\n<action>go to cabinet 3</action>{END}")
    text = ChatRenderer(TOKENIZER).reply_text(ids)
    assert parse_action(text, tags=True) == "go to cabinet 3"


def test_tags_numbers_and_marks_are_single_tokens() -> None:
    assert len(encode("<action>cup 12</action><|im_end|>")) == 5
    assert TOKENIZER.pad_token_id == 0
    assert TOKENIZER.eos_token == END
    assert [TOKENIZER.convert_tokens_to_ids(mark) for mark in MARKS] == [0, 1, 2, 3]


def test_unknown_words_are_marked_and_counted() -> None:
    assert TOKENIZER.unk_token_id in encode("take zebra 12")
    assert TOKENIZER.unk_token_id not in encode("take cup 12")
    assert count_unknown(["take zebra 12", "zebra!"], WORDS) == {"zebra": 2}
    assert WORDS[TOKENIZER.unk_token_id] == UNKNOWN


def test_vocabulary_does_not_depend_on_the_order_of_texts() -> None:
    assert closed_vocabulary(reversed(TEXTS), 100) == WORDS


def test_an_open_language_is_refused() -> None:
    with pytest.raises(ConfigError, match="limited to 100"):
        closed_vocabulary([f"word{n}" for n in range(100)], 100)


def test_every_prompt_extends_the_one_before() -> None:
    renderer = ChatRenderer(TOKENIZER)
    assert renderer.is_prefix_stable()
    assert renderer.end_of_turn_id == TOKENIZER.eos_token_id
    conversation = [Message("user", "cup"), Message("assistant", "take cup 12"), Message("user", "cup")]
    shown = [{"role": m.role, "content": m.content} for m in conversation]
    text = TOKENIZER.apply_chat_template(shown, tokenize=False, add_generation_prompt=True)
    assert list(renderer.prompt_ids(conversation)) == encode(text)
