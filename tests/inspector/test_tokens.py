from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnpoint.inspector.tokens import load_token_texts, token_texts_of_run, turn_tokens
from turnpoint.records import Observation, Turn


def write(path: Path, **data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_byte_level_pieces_become_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "tokenizer.json",
        model={"vocab": {"Ġgo": 0, "Ċ": 1, "âĤ": 2, "é": 3, "Ã©": 4}},
        decoder={"type": "ByteLevel"},
        added_tokens=[{"id": 9, "content": "<|im_end|>"}],
    )
    texts = load_token_texts(path)
    assert texts is not None
    assert [texts.text(i) for i in (0, 1, 2, 4, 9, 77)] == [" go", "\n", "⟨E2 82⟩", "é", "<|im_end|>", "#77"]


def test_word_level_and_unigram_vocabularies(tmp_path: Path) -> None:
    words = load_token_texts(write(tmp_path / "a.json", model={"vocab": {"take": 0, "a\u202eb": 1}}))
    assert words is not None
    assert [words.text(0), words.text(1)] == ["take", "a⟨U+202E⟩b"]
    pieces = load_token_texts(write(tmp_path / "b.json", model={"vocab": [["<unk>", 0.0], ["▁mug", -1.0]]}))
    assert pieces is not None
    assert pieces.text(1) == " mug"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {"vocab": 3}}', "{no"])
def test_a_file_that_is_no_tokenizer_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    assert load_token_texts(tmp_path / "t.json") is None
    assert load_token_texts(tmp_path / "absent.json") is None


def test_the_newest_checkpoint_with_a_tokenizer_counts(tmp_path: Path) -> None:
    for step, word in ((10, "old"), (20, "new")):
        write(tmp_path / f"checkpoints/step_{step:06d}/policy/tokenizer.json", model={"vocab": {word: 0}})
    write(tmp_path / "checkpoints/step_000030/policy/tokenizer.json", model=None)
    texts = token_texts_of_run(tmp_path)
    assert texts is not None
    assert texts.text(0) == "new"


def test_without_a_vocabulary_characters_are_known_and_other_tokens_are_ids() -> None:
    turn = Turn(0, Observation("o"), response="hi\u200b", response_ids=(104, 105, 0x200B, 3))
    assert list(turn_tokens(turn, None)) == ["h", "i", "⟨U+200B⟩", "⟨end⟩"]
    turn = Turn(0, Observation("o"), response="hi", response_ids=(7, 8))
    assert list(turn_tokens(turn, None)) == ["#7", "#8"]
