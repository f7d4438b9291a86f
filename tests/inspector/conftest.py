from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from .samples import write_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests that change it copy it first."""
    return write_run(tmp_path_factory.mktemp("runs") / "sample")


def embedded(page: str, name: str = "episodes") -> Any:
    """The JSON of a data block of a page."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def plain_text(page: str) -> str:
    """Page without scripts, styles and tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))
