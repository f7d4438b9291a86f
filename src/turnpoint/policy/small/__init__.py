"""The built-in agent: a tiny Qwen3 with a word-level tokenizer, made by code; nothing is downloaded."""

from turnpoint.policy.small.build import build_small_agent
from turnpoint.policy.small.tokenizer import CHAT_TEMPLATE, make_tokenizer
from turnpoint.policy.small.vocabulary import closed_vocabulary, count_unknown, split_words

__all__ = [
    "CHAT_TEMPLATE",
    "build_small_agent",
    "closed_vocabulary",
    "count_unknown",
    "make_tokenizer",
    "split_words",
]
