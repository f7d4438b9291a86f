"""Real chat formats: golden conversations, tokens kept over random conversations, what templates do on their own."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from turnpoint.config import ConfigError
from turnpoint.prompts import ChatRenderer, PromptSettings
from turnpoint.records import Message

from .families import CORPUS, FAMILIES, family_tokenizer

pytest.importorskip("transformers")

DATE = {"llama3": {"date_string": "01 Feb 2025"}}
every_family = pytest.mark.parametrize("family", list(FAMILIES))
GOLDEN = [
    (path.stem, case)
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
    for case in json.loads(path.read_text())
]


@cache
def renderer_of(family: str, replies: Any = "sampled") -> ChatRenderer:
    tokenizer = family_tokenizer(family)
    return ChatRenderer(tokenizer, template_arguments=DATE.get(family), replies=replies)


def encode(renderer: ChatRenderer, text: str) -> tuple[int, ...]:
    return tuple(renderer.tokenizer.encode(text, add_special_tokens=False))


def growing(rng: random.Random, family: str, turns: int) -> list[Message]:
    """A random conversation whose replies are encoded text and the family's end of turn."""
    renderer, words = renderer_of(family), CORPUS.split()

    def text() -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randint(1, 12))).replace(". ", ".\n")

    messages = [Message("system", text())] if rng.random() < 0.5 else []
    for _ in range(turns):
        reply = text().replace("<think>", "").replace("</think>", "").strip() or "look"
        ids = (*encode(renderer, reply), renderer.end_of_turn_id)
        messages += [Message("user", text()), Message("assistant", reply, ids)]
    return [*messages, Message("user", text())]


def test_every_family_has_its_golden_conversations() -> None:
    assert {family for family, _ in GOLDEN} == set(FAMILIES)


@pytest.mark.parametrize(("family", "case"), GOLDEN, ids=[f"{f}: {c['name']}" for f, c in GOLDEN])
def test_golden_conversations(family: str, case: dict[str, Any]) -> None:
    renderer = ChatRenderer(
        family_tokenizer(family), template_arguments=case["arguments"], tools=case["tools"]
    )
    messages = [Message(m["role"], m["content"]) for m in case["messages"]]
    assert renderer.text(messages) == case["text"]
    assert renderer.prompt_ids(messages) == encode(renderer, case["text"])


@every_family
def test_the_end_of_a_turn_is_found(family: str) -> None:
    renderer = renderer_of(family)
    tokenizer, expected = renderer.tokenizer, FAMILIES[family]
    assert renderer.end_of_turn_id == tokenizer.convert_tokens_to_ids(expected.end)
    assert renderer.eos_ids == {renderer.end_of_turn_id, tokenizer.convert_tokens_to_ids(expected.eos)}
    assert renderer.is_prefix_stable()


@every_family
def test_increments_equal_the_full_template(family: str) -> None:
    """Replies that are what the text would be encoded as: growing prompts are the template, to the token."""
    rng = random.Random(f"increments/{family}")
    renderer = renderer_of(family)
    for _ in range(20):
        messages = growing(rng, family, rng.randint(1, 4))
        for stop in [n + 1 for n, message in enumerate(messages) if message.role == "user"]:
            shown = messages[:stop]
            assert renderer.prompt_ids(shown) == encode(renderer, renderer.text(shown))


@every_family
def test_tokens_are_conserved_on_random_conversations(family: str) -> None:
    """100 conversations of any tokens: each prompt extends what was read and sampled before, nothing lost or added."""
    rng = random.Random(f"conservation/{family}")
    renderer = renderer_of(family)
    marks = set(renderer.tokenizer.all_special_ids)
    plain = [token for token in range(len(renderer.tokenizer)) if token not in marks]
    for _ in range(100):
        messages, seen = growing(rng, family, 0), ()
        for _ in range(rng.randint(1, 5)):
            prompt = renderer.prompt_ids(messages)
            assert renderer.extends(seen, prompt)
            ending = rng.choice([(), (renderer.end_of_turn_id,), (rng.choice(sorted(renderer.eos_ids)),)])
            reply = (*rng.choices(plain, k=rng.randint(1, 9)), *ending)
            seen = prompt + reply
            text = renderer.reply_text(reply)
            messages = [*messages, Message("assistant", text, reply), Message("user", "go on")]
        final = renderer.prompt_ids(messages)
        assert renderer.extends(seen, final)
        rest = renderer.tokenizer.decode(final[len(seen) :])
        assert "go on" in rest
        assert len(rest) < 130, "the rest is one message and the marks around it"


@pytest.mark.parametrize("thinking", [True, False])
def test_qwen3_reasoning_stays_as_sampled_or_goes_as_the_template_says(thinking: bool) -> None:
    arguments = {"enable_thinking": thinking}
    kept = ChatRenderer(family_tokenizer("qwen3"), template_arguments=arguments)
    told = ChatRenderer(family_tokenizer("qwen3"), template_arguments=arguments, replies="template")
    reply = "<think>\nThe apple is in the fridge.\n</think>\n\n<action>open</action>"
    ids = (*encode(kept, reply), kept.end_of_turn_id)
    messages = [Message("user", "question"), Message("assistant", reply, ids), Message("user", "go")]
    first = kept.prompt_ids(messages[:1])
    assert first == told.prompt_ids(messages[:1])
    assert kept.extends(first + ids, kept.prompt_ids(messages))
    assert not told.extends(first + ids, told.prompt_ids(messages)), "this turn begins a row of its own"
    assert told.prompt_ids(messages) == encode(told, told.text(messages))
    assert "apple" not in told.tokenizer.decode(told.prompt_ids(messages))
    assert not kept.template.keeps_reasoning()
    assert renderer_of("smollm2").template.keeps_reasoning()


def test_replies_as_the_template_tells_them_extend_where_nothing_is_stripped() -> None:
    rng = random.Random(0)
    for family in ("smollm2", "gemma3"):
        messages = growing(rng, family, 3)
        assert renderer_of(family, "template").prompt_ids(messages) == renderer_of(family).prompt_ids(
            messages
        )


def test_a_system_message_that_the_template_refuses_goes_into_the_first_user_turn() -> None:
    assert not renderer_of("gemma2").template.takes_system
    assert all(renderer_of(name).template.takes_system for name in ("qwen3", "llama3", "smollm2", "gemma3"))
    with pytest.raises(ConfigError, match=r"remove prompt\.system"):
        renderer_of("gemma2").text([Message("system", "Be brief."), Message("assistant", "yes")])


def test_messages_that_a_template_refuses_are_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"refuses the messages \(user, user\).*must alternate"):
        renderer_of("gemma3").text([Message("user", "a"), Message("user", "b")])


def test_a_template_with_todays_date_is_known() -> None:
    assert ChatRenderer(family_tokenizer("llama3")).template.shows_date()
    assert not renderer_of("llama3").template.shows_date()
    assert not renderer_of("qwen3").template.shows_date()


def test_settings_reach_the_template() -> None:
    settings = PromptSettings(template_arguments={"enable_thinking": False}, earlier_replies="template")
    tokenizer = family_tokenizer("qwen3")
    other = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    renderer = ChatRenderer.from_settings(tokenizer, settings, eos_ids=[other])
    assert renderer.replies == "template"
    assert renderer.text([Message("user", "a")]).endswith("<think>\n\n</think>\n\n")
    reply = (*encode(renderer, "open"), other)
    assert renderer.reply_text(reply) == "open", "a reply may end with any of the policy's ends"
    plain = ChatRenderer.from_settings(tokenizer, PromptSettings(template="plain"))
    assert plain.text([Message("user", "a")]) == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
