"""What single tokens look like, read from a run's own ``tokenizer.json`` without a tokenizer library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from turnpoint.inspector.text import visible
from turnpoint.records import Reflection, Turn


class TokenTexts:
    """Token id to text. Pieces of byte-level vocabularies that are no whole character show as ``⟨E2 82⟩``."""

    def __init__(self, vocabulary: dict[int, str], *, byte_level: bool = False) -> None:
        self._vocabulary = vocabulary
        self._byte_level = byte_level
        self._shown: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._vocabulary)

    def text(self, token: int) -> str:
        """Text of one token; ``#7`` for an id the vocabulary does not have."""
        if token not in self._shown:
            piece = self._vocabulary.get(token)
            self._shown[token] = f"#{token}" if piece is None else visible(self._decode(piece))
        return self._shown[token]

    def _decode(self, piece: str) -> str:
        if not self._byte_level:
            return piece.replace("▁", " ")
        table = _byte_of_character()
        if any(character not in table for character in piece):
            return piece  # an added token is stored as it reads
        raw = bytes(table[character] for character in piece)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return f"⟨{raw.hex(' ').upper()}⟩"


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes, inverted."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + offset): byte for offset, byte in enumerate(others)}


def load_token_texts(path: Path) -> TokenTexts | None:
    """Vocabulary of a ``tokenizer.json``; None if there is no readable one."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        vocabulary = _vocabulary(data["model"]["vocab"])
        for token in data.get("added_tokens") or ():
            vocabulary[int(token["id"])] = str(token["content"])
        byte_level = '"ByteLevel"' in json.dumps([data.get("decoder"), data.get("pre_tokenizer")])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return TokenTexts(vocabulary, byte_level=byte_level)


def _vocabulary(stored: Any) -> dict[int, str]:
    """Word-level and BPE store ``{text: id}``, unigram a list of ``[text, score]``."""
    if isinstance(stored, list):
        return {index: str(item[0]) for index, item in enumerate(stored)}
    return {int(index): text for text, index in stored.items()}


def token_texts_of_run(folder: Path) -> TokenTexts | None:
    """The tokenizer of the newest checkpoint of a run that has one."""
    for path in sorted(folder.glob("checkpoints/step_*/policy/tokenizer.json"), reverse=True):
        texts = load_token_texts(path)
        if texts is not None:
            return texts
    return None


def turn_tokens(turn: Turn | Reflection, texts: TokenTexts | None) -> Sequence[str]:
    """One text for each response token: from the vocabulary, from the response where tokens are characters, or ids."""
    ids = turn.response_ids
    if texts is not None:
        return [texts.text(token) for token in ids]
    if len(turn.response) in (len(ids), len(ids) - 1) and _are_characters(ids, turn.response):
        shown = visible(turn.response)
        characters = list(shown) if shown == turn.response else [visible(c) for c in turn.response]
        return [*characters, *(["⟨end⟩"] if len(ids) > len(characters) else [])]
    return [f"#{token}" for token in ids]


def _are_characters(ids: Sequence[int], text: str) -> bool:
    return tuple(ids[: len(text)]) == tuple(map(ord, text))
