"""Shared fixtures."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):  # the browser tests' environment does not have it
    import hypothesis

    # a loaded machine may take long over an example; that says nothing about the code
    hypothesis.settings.register_profile("turnpoint", deadline=None)
    hypothesis.settings.load_profile("turnpoint")

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
