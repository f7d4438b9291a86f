"""Rows of a file, read without skyrl-gym."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnpoint.envs import EnvDataError
from turnpoint.envs.adapters.skyrl.rows import Rows


def test_lines_end_only_at_line_feeds_and_are_named_by_their_number(tmp_path: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "a\u2028b\u2029c\x85d"}]}
    text = json.dumps(row, ensure_ascii=False) + "\r\n\n"
    place = tmp_path / "rows.jsonl"
    place.write_text(text)
    assert Rows(str(place), "env.train").rows == [row]
    place.write_text(text + "{")
    with pytest.raises(EnvDataError, match="line 3 is not JSON"):
        Rows(str(place), "env.train")
