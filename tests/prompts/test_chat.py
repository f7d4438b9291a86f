"""Rendering: equal to the template where nothing was sampled, sampled tokens kept everywhere."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.config import ConfigError
from turnpoint.prompts import ChatRenderer
from turnpoint.records import Message

from .chat_templates import END, LAST_TURN_MARKED, TEMPLATES, USERS_ONLY, word_tokenizer

pytest.importorskip("transformers")

RENDERERS = {name: ChatRenderer(word_tokenizer(text, END[name])) for name, text in TEMPLATES.items()}
every_template = pytest.mark.parametrize("name", list(TEMPLATES))


def full_template(tokenizer: Any, messages: list[Message], **arguments: Any) -> tuple[int, ...]:
    plain = [{"role": m.role, "content": m.content} for m in messages]
    text = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True, **arguments)
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


texts = st.lists(st.sampled_from(["go", "to", "look", "1", "\n", ".", "unknown", "@@sampled-reply@@"])).map(
    " ".join
)


@every_template
@given(data=st.data(), turns=st.integers(0, 4), system=st.booleans())
def test_conversations_without_samples_equal_the_template(
    name: str, data: st.DataObject, turns: int, system: bool
) -> None:
    renderer = RENDERERS[name]
    roles = ["system"] * system + ["user", "assistant"] * turns + ["user"]
    messages = [Message(role, data.draw(texts)) for role in roles]
    assert renderer.prompt_ids(messages) == full_template(renderer.tokenizer, messages)


@every_template
def test_re_encoded_replies_equal_the_template(name: str) -> None:
    """If the sampled ids happen to be the encoded text and its end-of-turn token, rendering changes nothing."""
    renderer = RENDERERS[name]
    plain = [Message("user", "go to 1"), Message("assistant", "look"), Message("user", "open 2")]
    reply = ids(renderer.tokenizer, "look")
    if name == "break":
        reply += ids(renderer.tokenizer, "\n")
    expected = full_template(renderer.tokenizer, plain)
    for sampled in (reply, (*reply, renderer.end_of_turn_id)):
        messages = [plain[0], replace(plain[1], token_ids=sampled), plain[2]]
        if name == "break" and sampled == reply:
            continue  # cut off before its own line break: the template's comes on top
        assert renderer.prompt_ids(messages) == expected


@every_template
@given(
    replies=st.lists(
        st.tuples(st.lists(st.integers(0, 20), min_size=1), st.booleans()), min_size=1, max_size=5
    ),
    observations=st.lists(texts, min_size=6, max_size=6),
)
def test_sampled_tokens_are_conserved_and_each_prompt_extends_the_last(
    name: str, replies: list[tuple[list[int], bool]], observations: list[str]
) -> None:
    renderer = RENDERERS[name]
    messages = [Message("user", observations[0])]
    seen: tuple[int, ...] = ()
    for number, (body, ended) in enumerate(replies):
        prompt = renderer.prompt_ids(messages)
        assert renderer.extends(seen, prompt)
        reply = (*body, *([renderer.end_of_turn_id] if ended else []))
        seen = prompt + reply
        messages += [Message("assistant", "ignored", reply), Message("user", observations[number + 1])]
    final = renderer.prompt_ids(messages)
    assert renderer.extends(seen, final)
    ends = final.count(renderer.end_of_turn_id)
    assert ends == len(messages), "every turn, ended by the model or cut off, has one end-of-turn token"


@every_template
def test_templates_are_prefix_stable_in_our_rendering(name: str) -> None:
    assert RENDERERS[name].is_prefix_stable()
    assert RENDERERS[name].end_of_turn_id == RENDERERS[name].tokenizer.convert_tokens_to_ids(END[name])


def test_a_template_that_changes_earlier_user_turns_is_not_prefix_stable() -> None:
    assert not ChatRenderer(word_tokenizer(LAST_TURN_MARKED)).is_prefix_stable()


def test_reasoning_that_the_template_strips_stays() -> None:
    renderer = RENDERERS["thinking"]
    reply = ids(renderer.tokenizer, "<think> hm </think> look <|im_end|>")
    messages = [
        Message("user", "go"),
        Message("assistant", "<think>hm</think>look", reply),
        Message("user", "1"),
    ]
    hm = ids(renderer.tokenizer, "hm")[0]
    assert hm in renderer.prompt_ids(messages)
    text_only = [replace(message, token_ids=None) for message in messages]
    assert hm not in renderer.prompt_ids(text_only)


def test_an_empty_think_block_of_the_generation_prompt_stays_in_the_history() -> None:
    tokenizer = word_tokenizer(TEMPLATES["thinking"])
    renderer = ChatRenderer(tokenizer, template_arguments={"enable_thinking": False})
    assert renderer.is_prefix_stable()
    first = renderer.prompt_ids([Message("user", "go")])
    assert first[-8:] == ids(tokenizer, "<think>\n\n</think>\n\n")[-8:]
    assert first == full_template(tokenizer, [Message("user", "go")], enable_thinking=False)


def test_another_end_token_does_not_replace_the_templates() -> None:
    renderer = RENDERERS["chatml"]
    other = renderer.tokenizer.convert_tokens_to_ids("<|end|>")
    prompt = renderer.prompt_ids(
        [Message("user", "go"), Message("assistant", "", (7, other)), Message("user", "1")]
    )
    at = prompt.index(other)
    assert prompt[at + 1] == renderer.end_of_turn_id


def test_an_ordinary_token_is_never_taken_for_the_end() -> None:
    renderer = RENDERERS["break"]
    newline = ids(renderer.tokenizer, "\n")[0]
    messages = [Message("user", "go"), Message("assistant", "", (newline,)), Message("user", "1")]
    assert renderer.prompt_ids(messages).count(newline) == RENDERERS["break"].text(messages).count("\n") + 1


def test_reply_text_drops_the_end_of_turn_only() -> None:
    renderer = RENDERERS["chatml"]
    reply = ids(renderer.tokenizer, "go to 1<|im_end|>")
    assert renderer.reply_text(reply).split() == ["go", "to", "1"]
    assert renderer.reply_text(reply[:-1]).split() == ["go", "to", "1"]
    assert renderer.reply_text(()) == ""


def test_no_template_is_refused_unless_plain_is_asked_for() -> None:
    tokenizer = word_tokenizer(None)
    with pytest.raises(ConfigError, match="set template to 'plain'"):
        ChatRenderer(tokenizer)
    plain = ChatRenderer(tokenizer, template="plain")
    assert plain.is_prefix_stable()
    messages = [Message("system", "yes"), Message("user", "go")]
    assert plain.prompt_ids(messages) == full_template(word_tokenizer(TEMPLATES["chatml"]), messages)
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="EOS"):
        ChatRenderer(tokenizer, template="plain")


def test_a_template_without_assistant_turns_is_refused() -> None:
    renderer = ChatRenderer(word_tokenizer(USERS_ONLY))
    with pytest.raises(ConfigError, match="0 of 1 assistant"):
        renderer.prompt_ids([Message("user", "go"), Message("assistant", "", (1,)), Message("user", "1")])


def test_content_that_looks_like_the_mark_is_safe() -> None:
    renderer = RENDERERS["chatml"]
    messages = [Message("user", "@@sampled-reply@@ 1"), Message("assistant", "x", (7,)), Message("user", "2")]
    prompt = renderer.prompt_ids(messages)
    assert prompt.count(ids(renderer.tokenizer, "sampled")[0]) == 1


def test_a_growing_conversation_is_quick() -> None:
    renderer = ChatRenderer(word_tokenizer(TEMPLATES["chatml"]))
    started = time.process_time()
    for episode in range(10):
        messages = [Message("user", "go to 1 . " * 20)]
        for turn in range(20):
            renderer.prompt_ids(messages)
            observation = f"{episode} {turn} " + "look to 2 . " * 10
            messages += [Message("assistant", "", (7, 8, 9, 10)), Message("user", observation)]
    assert (time.process_time() - started) / 200 < 1e-3
