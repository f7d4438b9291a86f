"""Everything that is inspected, for viewers in this process: list entries at once, details when asked for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from turnpoint.inspector.store import PAGE_LIMITS, Plan, Progress, load
from turnpoint.inspector.views import episode_view

Json = dict[str, Any]
_KEPT = 200


class Catalogue:
    """List entries of a plan with their groups and branches."""

    def __init__(self, made: Plan, progress: Progress | None = None) -> None:
        """Parses every episode once. ``progress`` is told how far it is."""
        self.plan = made
        self.entries: list[Json] = []
        self.problems: list[str] = []
        self._refs = {
            (piece.name, place): ref for piece in made.pieces for place, ref in enumerate(piece.refs)
        }
        self._details: OrderedDict[tuple[str, int], Json] = OrderedDict()
        done = 0
        for piece in made.pieces:
            loaded = load(piece, None, details=False)
            self.entries += loaded.summaries
            self.problems += loaded.problems
            done += len(piece.refs)
            if progress is not None:
                progress(done, made.episodes)
        self._index()

    def _index(self) -> None:
        self._by_name: dict[tuple[str, int, str], Json] = {}
        self._children: dict[tuple[str, int, str], list[Json]] = {}
        self._groups: dict[tuple[str, int, str], list[Json]] = {}
        for entry in self.entries:
            self._by_name.setdefault(self._place(entry, entry["id"]), entry)
            self._groups.setdefault(self._place(entry, entry["task"]), []).append(entry)
            if "fork" in entry:
                self._children.setdefault(self._place(entry, entry["fork"][0]), []).append(entry)
        for entry in self.entries:
            entry["nested"] = entry["kind"] == "recovery" and self.parent(entry) is not None

    @staticmethod
    def _place(entry: Json, name: str) -> tuple[str, int, str]:
        return entry["o"], entry.get("step", 0), name

    def children(self, entry: Json) -> list[Json]:
        """Branches and retries that were forked from an episode."""
        return self._children.get(self._place(entry, entry["id"]), [])

    def parent(self, entry: Json) -> Json | None:
        """The episode that a branch was forked from, if it is here."""
        return self._by_name.get(self._place(entry, entry["fork"][0])) if "fork" in entry else None

    def group(self, entry: Json) -> list[Json]:
        """All episodes of the same task in the same step."""
        return self._groups[self._place(entry, entry["task"])]

    def fork_turns(self, entry: Json) -> list[int]:
        """Turns of an episode after which something branched off."""
        return [child["fork"][1] - 1 for child in self.children(entry)]

    def detail(self, entry: Json) -> Json:
        """Everything about an episode. Raises ``ValueError`` or ``OSError`` if its line cannot be read any more."""
        key = (entry["c"], entry["p"])
        if key in self._details:
            self._details.move_to_end(key)
            return self._details[key]
        view = episode_view(self._refs[key].read(), PAGE_LIMITS, self.plan.texts)
        self._details[key] = view
        if len(self._details) > _KEPT:
            self._details.popitem(last=False)
        return view
