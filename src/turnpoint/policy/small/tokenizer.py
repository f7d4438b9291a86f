"""The word-level tokenizer and the chat template of the built-in agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnpoint.policy.small.vocabulary import END, PAD, START, UNKNOWN, WORD_PATTERN

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML-style: a message is rendered alone, so every prompt extends the one before it."""


def make_tokenizer(words: Sequence[str], context_length: int) -> Any:
    """A Hugging Face tokenizer whose ids are the positions in ``words`` (see ``closed_vocabulary``).

    White space is dropped, words it does not know become ``<unk>``; decoding restores the text up to white
    space, with none inside tags and before full stops, commas and colons.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated"),
            pre_tokenizers.Split(Regex(r"\s+"), "removed"),
        ]
    )
    tags = [word for word in words if word.startswith("<") and word.endswith(">") and len(word) > 2]
    tight = [decoders.Replace(f" {tag}" if tag.startswith("</") else f"{tag} ", tag) for tag in tags]
    colon = decoders.Replace(" :", ":")
    core.decoder = decoders.Sequence(
        # The WordPiece decoder joins words with spaces and tidies punctuation; no word begins with its prefix.
        [decoders.WordPiece(prefix="\u0000", cleanup=True), decoders.Fuse(), colon, *tight]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=context_length,
        clean_up_tokenization_spaces=False,
    )
