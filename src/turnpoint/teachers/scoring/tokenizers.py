"""Whether two tokenizers are the same: token by token and on probe texts, never by vocabulary size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError

PROBES = (
    "go to drawer 1",
    "Hello, world! It's 12:05; that makes 3.14159 and 1,000,000.",
    "  two  spaces,\ttab\n\nblank line \n",
    "def f(x):\n    return x**2  # comment",
    '{"name": "book_flight", "arguments": {"user_id": "sara_doe_496"}}',
    "naïve Zürich Ελλάδα Привет 你好，世界 こんにちは 한국어 العربية",
    "emoji 🙂👩‍🚀 and symbols → ≤ €",
    "<think>\nstep by step\n</think>\n<action>open fridge 1</action>",
    "<|im_start|>user\nwhat now?<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|></s><s>[INST] [/INST]<bos><eos>",
)


def difference(student: Any, teacher: Any) -> str | None:
    """The first difference found between two Hugging Face tokenizers, in words; None if they are equal."""
    ours, theirs = _vocabulary(student), _vocabulary(teacher)
    if ours is not None and theirs is not None and ours != theirs:
        for token in sorted({*ours, *theirs}, key=lambda t: (ours.get(t, 1 << 60), t)):
            if ours.get(token) != theirs.get(token):
                a, b = _id(ours.get(token)), _id(theirs.get(token))
                return f"token {token!r} is {a} for the student, {b} for the teacher"
    for probe in (*PROBES, *_special_texts(student), *_special_texts(teacher), *_own_words(ours)):
        mine, others = _encode(student, probe), _encode(teacher, probe)
        if mine != others:
            return (
                f"the text {probe!r} has {len(mine)} tokens {mine[:8]}… for the student, "
                f"{len(others)} tokens {others[:8]}… for the teacher"
            )
    return None


def require_same(student: Any, teacher: Any, where: str) -> None:
    """Raise ``ConfigError`` unless both tokenizers are equal; ``where`` names the teacher's setting."""
    found = difference(student, teacher)
    if found is not None:
        raise ConfigError(
            f"{where} has another tokenizer than the student: {found}. A scoring teacher must read the student's own "
            "tokens: use a teacher of the same model family and version, or a teacher that only names actions "
            "(teacher.kind: http) with method pivotopd"
        )


def read_tokenizer(folder: Path, where: str) -> Any:
    """The tokenizer in a folder. Raises ``ConfigError``."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{where} is '{folder}', which has no readable tokenizer: {error}") from error


def _vocabulary(tokenizer: Any) -> dict[str, int] | None:
    """All tokens with their ids, added ones included; None where the tokenizer cannot list them."""
    listed = getattr(tokenizer, "get_vocab", None)
    return None if listed is None else dict(listed())


def _special_texts(tokenizer: Any) -> list[str]:
    return [str(token) for token in getattr(tokenizer, "all_special_tokens", ())]


def _own_words(vocabulary: dict[str, int] | None) -> list[str]:
    """Tokens spread over the vocabulary as texts, for closed vocabularies that know no word of the probes."""
    tokens = sorted(vocabulary or (), key=lambda token: (vocabulary or {})[token])
    return [" ".join(tokens[start :: max(1, len(tokens) // 64)][:64]) for start in range(4) if tokens]


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def _id(value: int | None) -> str:
    return "unknown" if value is None else f"id {value}"
