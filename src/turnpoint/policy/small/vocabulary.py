"""Words of a closed language, in a fixed order; free of torch and transformers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from turnpoint.config import ConfigError

PAD, UNKNOWN, START, END = "<|pad|>", "<unk>", "<|im_start|>", "<|im_end|>"
MARKS = (PAD, UNKNOWN, START, END)
"""Tokens that stand for no text, first in every vocabulary."""
BASE_WORDS = ("system", "user", "assistant", "tool", "<action>", "</action>", "<think>", "</think>")
"""Roles and tags, in every vocabulary; tags are ordinary tokens, so that decoding shows them."""

WORD_PATTERN = r"</?[A-Za-z_]+>|\w+|[^\w\s]"
"""What becomes one token: a tag, a word or number, or a single other character."""
_WORD = re.compile(WORD_PATTERN)


def split_words(text: str) -> list[str]:
    """Tokens of ``text`` as strings; white space is dropped."""
    return _WORD.findall(text)


def closed_vocabulary(texts: Iterable[str], limit: int) -> list[str]:
    """Marks, roles, tags and every word of ``texts``, sorted; index = token id.

    Raises ``ConfigError`` if there are more than ``limit``.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split_words(text))
    fixed = (*MARKS, *BASE_WORDS)
    words = [*fixed, *sorted(set(counts) - set(fixed))]
    if len(words) > limit:
        raise ConfigError(
            f"the environment and prompt have {len(words)} different words, and the small agent's vocabulary "
            f"is limited to {limit}; use compact prompts (prompt.compact: true) and an environment with a "
            "closed language, or raise policy.max_vocabulary"
        )
    return words


def count_unknown(texts: Iterable[str], vocabulary: Iterable[str]) -> Counter[str]:
    """How often each word of ``texts`` is missing from ``vocabulary``."""
    known = set(vocabulary)
    return Counter(word for text in texts for word in split_words(text) if word not in known)
