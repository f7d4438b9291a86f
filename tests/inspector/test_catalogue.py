from __future__ import annotations

from pathlib import Path

import pytest

from turnpoint.inspector import plan
from turnpoint.inspector.catalogue import Catalogue


@pytest.fixture(scope="module")
def catalogue(run_folder: Path) -> Catalogue:
    return Catalogue(plan(run_folder))


def test_branches_know_their_parents(catalogue: Catalogue) -> None:
    branches = [e for e in catalogue.entries if e["kind"] == "recovery"]
    assert branches
    for branch in branches:
        parent = catalogue.parent(branch)
        assert parent is not None
        assert branch in catalogue.children(parent)
        assert branch["fork"][1] - 1 in catalogue.fork_turns(parent)
        assert branch["nested"]


def test_a_group_is_one_task_in_one_step(catalogue: Catalogue) -> None:
    entry = next(e for e in catalogue.entries if e["o"] == "train")
    group = catalogue.group(entry)
    assert entry in group
    assert {(e["task"], e["step"], e["o"]) for e in group} == {(entry["task"], entry["step"], "train")}
    assert sum(e["kind"] == "rollout" for e in group) == 4


def test_details_are_read_again_when_they_were_dropped(catalogue: Catalogue) -> None:
    first = catalogue.entries[0]
    detail = catalogue.detail(first)
    assert catalogue.detail(first) is detail
    for entry in catalogue.entries[1:202]:
        catalogue.detail(entry)
    again = catalogue.detail(first)
    assert again is not detail
    assert again == detail
