"""Tests against verl: run by scripts/test-verl.sh alone, in an environment where verl is installed.

This folder must stay without ``__init__.py``: as a package it would be imported as ``verl`` and hide the real one.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["VERL_USE_EXTERNAL_PLUGINS"] = (
    "none"  # before the first import of verl: what is judged is verl itself
)

import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.verl)
