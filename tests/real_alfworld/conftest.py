"""Real games in a folder, as ``turnpoint envs prepare alfworld`` lays them out; without the data set they skip."""

from __future__ import annotations

import itertools
import json
import lzma
import os
import sys
from pathlib import Path

import pytest

EVERY = {"train": 170, "valid_seen": 9}
"""Every so many games of a split: files are sorted by task type, and all types must be there."""


@pytest.fixture(scope="session")
def games(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = shared_data / "alfworld"
    template = json.loads((data / "template.json").read_text())
    folder = tmp_path_factory.mktemp("released")
    for split, step in EVERY.items():
        with lzma.open(data / f"{split}.jsonl.xz", "rt") as lines:
            for line in itertools.islice(lines, 0, None, step):
                row = json.loads(line)
                path = folder / split / row["id"] / "game.tw-pddl"
                path.parent.mkdir(parents=True)
                document = {
                    "pddl_domain": template["pddl_domain"],
                    "grammar": template["grammar"].replace("@TASK@", row["task"]),
                    "pddl_problem": row["problem"],
                    "solvable": True,
                    "walkthrough": row["walkthrough"],
                }
                path.write_text(json.dumps(document))
    return folder


_status = pytest.StashKey[int]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_status] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave with the verdict of the tests: the planner library can crash while the interpreter unloads it."""
    if _status in config.stash:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[_status])
