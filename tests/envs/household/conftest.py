"""Games for the household tests: small generated ones, and real ones where the data is present."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Documents = Callable[[str, int | None], Iterator[tuple[str, dict[str, Any]]]]


@pytest.fixture(scope="session")
def real_documents(shared_data: Path) -> Documents:
    """Released game files as JSON documents: ``real_documents(split, count)`` yields (id, document)."""
    folder = shared_data / "alfworld"
    if not (folder / "template.json").is_file():
        pytest.skip(f"released ALFWorld games are not here ({folder})")
    template = json.loads((folder / "template.json").read_text())

    def documents(split: str, count: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        with lzma.open(folder / f"{split}.jsonl.xz", "rt") as lines:
            for line in itertools.islice(lines, count):
                row = json.loads(line)
                yield (
                    row["id"],
                    {
                        "pddl_domain": template["pddl_domain"],
                        "grammar": template["grammar"].replace("@TASK@", row["task"]),
                        "pddl_problem": row["problem"],
                        "solvable": True,
                        "walkthrough": row["walkthrough"],
                    },
                )

    return documents
