"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data sets for tests; skips where a checkout does not have it."""
    folder = Path(os.environ.get("TURNPOINT_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(
            f"real data sets are not here ({folder}); set TURNPOINT_SHARED to the folder that holds data/"
        )
    return folder
