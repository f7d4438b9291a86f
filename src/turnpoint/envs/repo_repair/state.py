"""What changes in an episode."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from turnpoint.envs.repo_repair.judge import Verdict
from turnpoint.envs.repo_repair.proposals import Proposals
from turnpoint.envs.repo_repair.records import Record
from turnpoint.envs.repo_repair.tree import Tree


class Job:
    """A task with its repository, shared by every copy that plays it."""

    def __init__(self, record: Record, tree: Tree, gold: Tree, visible: tuple[str, ...]) -> None:
        self.record = record
        self.tree = tree
        """The repository as the agent finds it."""
        self.gold = gold
        """The repository as it was repaired."""
        self.visible = visible
        """Tests of FAIL_TO_PASS that the agent can run."""
        self.proposals = Proposals(record, tree.base)


class State(NamedTuple):
    """The whole state; immutable, so taking and restoring a snapshot is a reference."""

    job: Job
    tree: Tree
    opened: str = ""
    """The file that was opened last."""
    shown: frozenset[str] = frozenset()
    """Files of which the lines to repair were shown."""
    tested: str = ""
    """Key of the tree that was tested last."""
    said: str = ""
    """The current observation."""
    verdict: Verdict | None = None
    """None until the repository is handed in."""

    def key(self, *, listed: bool) -> str:
        """Equal for equal contents; where actions are listed, the open file counts too."""
        parts = (self.job.record.id, self.tree.key, self.verdict, self.opened if listed else "")
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
