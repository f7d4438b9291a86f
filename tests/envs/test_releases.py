"""Known files are named, whatever they are packed in; unknown ones are said to be so."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from turnpoint.envs import EnvDataError
from turnpoint.envs.math.settings import MathSettings
from turnpoint.envs.releases import KNOWN, UNKNOWN, content_hash, releases
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.envs.webshop.settings import WebShopSettings


def test_packing_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[1]")
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(b"[1]"))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"[1]"))
    assert len({content_hash(path) for path in tmp_path.iterdir()}) == 1
    assert set(releases(list(tmp_path.iterdir())).values()) == {UNKNOWN}
    (tmp_path / "b.xz").write_bytes(b"torn")
    with pytest.raises(EnvDataError, match="cannot be read"):
        content_hash(tmp_path / "b.xz")


def test_the_tested_files_are_known(shared_data: Path, tmp_path: Path) -> None:
    found = WebShopSettings.prepare(shared_data / "webshop" / "webshop_small.json.xz", tmp_path)["release"]
    found |= SearchQASettings.prepare(shared_data / "search_qa", tmp_path)["release"]
    for name in ("aime24", "amc23"):
        file = str(shared_data / "math" / f"{name}.jsonl")
        suite = MathSettings(train=file, valid=file).build()
        found |= suite.header()["valid"]["release"]
    assert sorted(found.values()) == sorted(KNOWN.values())


def test_another_file_is_allowed_and_named_unknown(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    suite = MathSettings(train=str(tmp_path), valid=str(tmp_path)).build()
    assert suite.header()["train"]["release"] == {"own.jsonl": UNKNOWN}
