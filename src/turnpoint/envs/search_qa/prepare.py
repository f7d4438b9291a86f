"""From files of questions and passages to one file with both and a search index.

Questions (``*question*.jsonl``): ``question``, ``answers`` (or ``golden_answers``), and optionally ``dataset`` (or
``data_source``), ``id`` and ``split``. Passages (``*corpus*.jsonl``): ``contents``, whose first line is the title as in
Search-R1's corpus unless ``title`` is given, and optionally ``id``. Both may be packed with xz or gz.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.releases import releases
from turnpoint.envs.seeded import split_of
from turnpoint.envs.text_store import TextStore, TextStoreWriter

FILE = "search_qa.sqlite"
_PLAIN = "questions"
_SPLITS = {"train": "train", **dict.fromkeys(("valid", "validation", "dev", "test"), "valid")}


def prepare(source: Path, folder: Path) -> dict[str, Any]:
    """Write ``folder/search_qa.sqlite``; gives counts and hashes. Raises ``EnvDataError`` if a file is unusable."""
    if not source.is_dir():
        raise EnvDataError(
            f"'{source}' is no folder; give one that holds *question*.jsonl and *corpus*.jsonl files"
        )
    questions, corpora = _files(source, "question"), _files(source, "corpus")
    files = [*questions, *corpora]
    facts = {"source": {path.name: _file_hash(path) for path in files}, "release": releases(files)}
    passages = (passage for path in corpora for passage in map(passage_record, _lines(path)))
    asked = (question for path in questions for question in map(question_item, _lines(path)))
    store = write_data(passages, asked, folder / FILE, facts)
    try:
        return {"data_file": str(folder / FILE), **store.facts}
    finally:
        store.close()


def write_data(
    passages: Iterable[dict[str, str]],
    questions: Iterable[dict[str, Any]],
    path: Path | None,
    facts: dict[str, Any],
) -> TextStore:
    """Store passages (``id``, ``title``, ``text``) and questions; ``path`` None keeps them in memory."""
    writer, sets = TextStoreWriter(path), Counter[str]()
    for number, passage in enumerate(passages):
        record = {**passage, "id": passage["id"] or str(number)}
        writer.add(record["id"], record, f"{record['title']}\n{record['text']}")

    def counted() -> Iterator[dict[str, Any]]:
        for question in questions:
            sets[question["set"]] += 1
            yield question

    if not writer.add_items(counted()):
        raise EnvDataError("there are no questions; add a *question*.jsonl file")
    return writer.finish({"passages": writer.records, "sets": dict(sorted(sets.items()))} | facts)


def question_item(row: Any) -> dict[str, Any]:
    """A question of any of the known forms. Raises ``EnvDataError`` if it has no text, no answer or another split."""
    found = row if isinstance(row, dict) else {}
    answers = found.get("answers", found.get("golden_answers"))
    answers = [answers] if isinstance(answers, str) else answers
    if (
        not isinstance(found.get("question"), str)
        or not answers
        or not all(isinstance(a, str) for a in answers)
    ):
        raise EnvDataError(f"a question needs 'question' and 'answers': {str(row)[:200]}")
    item = {
        "question": found["question"].strip(),
        "answers": list(answers),
        "set": str(found.get("dataset", found.get("data_source", _PLAIN))),
        "id": _text(found.get("id")),
        "split": _text(found.get("split")),
    }
    split_in(item)
    return item


def split_in(item: dict[str, Any]) -> str:
    """``train`` or ``valid``: as the question says, else by a hash of it. Raises ``EnvDataError`` for other splits."""
    said = item["split"]
    if said and said not in _SPLITS:
        raise EnvDataError(f"a question has the split '{said}'; use {', '.join(_SPLITS)}, or leave it out")
    return _SPLITS[said] if said else split_of(item["question"])


def passage_record(row: Any) -> dict[str, str]:
    """A passage of either form. Raises ``EnvDataError`` if it has no contents."""
    if not isinstance(row, dict) or not isinstance(row.get("contents"), str):
        raise EnvDataError(f"a passage needs 'contents': {str(row)[:200]}")
    title, _, text = row["contents"].partition("\n")
    if "title" in row:
        title, text = str(row["title"]), row["contents"]
    return {"id": _text(row.get("id")), "title": title.strip().strip('"'), "text": text.strip()}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _files(folder: Path, word: str) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if word in path.name and ".jsonl" in path.suffixes)
    if not found:
        raise EnvDataError(f"there is no *{word}*.jsonl in '{folder}'")
    return found


def _lines(path: Path) -> Iterator[Any]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            for line in stream:
                if line.strip():
                    yield json.loads(line)
    except (ValueError, lzma.LZMAError, EOFError) as error:
        raise EnvDataError(f"'{path}' cannot be read: {error}") from error


def _file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
