"""What became of the records of another tool."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_MOST = 200


@dataclass(slots=True)
class ExchangeReport:
    """Counts of an import or export."""

    episodes: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Records that gave no episode, by reason."""
    changed: Counter[str] = field(default_factory=Counter)
    """Things that a record holds and an episode (or the other format) cannot, by kind."""
    problems: list[str] = field(default_factory=list)
    """One sentence for each of the first dropped records, with file and line."""

    def drop(self, reason: str, where: str) -> None:
        """Count a record that is left out."""
        self.dropped[reason] += 1
        if len(self.problems) < _MOST:
            self.problems.append(f"{where}: {reason}")

    def notes(self) -> list[str]:
        """What a user should know, a sentence each."""
        lines = [f"{count} records left out: {reason}" for reason, count in self.dropped.most_common()]
        lines += [f"not kept: {what} ({count})" for what, count in self.changed.most_common()]
        return [*lines, *self.problems[:5]]
