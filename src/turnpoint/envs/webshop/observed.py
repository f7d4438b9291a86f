"""What a careful shopper does who knows the instruction and the pages seen so far.

A product that was opened counts as known, with its options and pages; of the others only titles and prices are. The
shopper searches for the instruction's words, opens the products whose titles share most words with it, and buys the
first one that scores 1.0. Only when nothing is left to open is the oracle asked for the way.
"""

from __future__ import annotations

from typing import NamedTuple

from turnpoint.envs.analysis import lucene
from turnpoint.envs.webshop.catalogue import Product
from turnpoint.envs.webshop.engine import pages
from turnpoint.envs.webshop.oracle import Oracle
from turnpoint.envs.webshop.pages import BACK, NEXT, PREVIOUS, State


class Seen(NamedTuple):
    """What an episode has shown."""

    opened: frozenset[int] = frozenset()
    """Products whose page was seen."""
    searched: frozenset[str] = frozenset()
    """Searches made."""

    def with_page(self, state: State) -> Seen:
        """After one more page."""
        opened = self.opened | {state.product} if state.product >= 0 else self.opened
        searched = self.searched | {" ".join(state.query.split())} if state.query else self.searched
        return Seen(opened, searched)


class Observer:
    """Chooses by what was seen."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.play = oracle, oracle.play
        self.wanted = frozenset(lucene(self.play.goal.instruction))

    def best_actions(self, state: State, seen: Seen) -> list[str]:
        """Sensible actions, best first; none if the task is done or impossible."""
        if not self.oracle.distance(state):
            return []
        if state.page == "search":
            untried = [
                query for query in self.play.offered if query not in seen.searched and "]" not in query
            ]
            return [f"search[{untried[0]}]"] if untried else self.oracle.best_actions(state)
        if state.page == "results":
            return self._on_results(state, seen)
        if state.page != "item":
            return [f"click[{PREVIOUS}]"]
        if self.oracle.solves(self.play.shop.product(state.product)):
            return self._on_good_item(state)
        return [f"click[{PREVIOUS}]"]

    def _on_results(self, state: State, seen: Seen) -> list[str]:
        shown = self.play.shown(state)
        good = [item for item in shown if item.number in seen.opened and self.oracle.solves(item)]
        fresh = [item for item in shown if item.number not in seen.opened and self._affordable(item)]
        if good:
            return [f"click[{item.asin.lower()}]" for item in good]
        if fresh:
            most = max(self._shared(item) for item in fresh)
            return [f"click[{item.asin.lower()}]" for item in fresh if self._shared(item) == most]
        if state.number < pages(len(self.play.results(state))):
            return [f"click[{NEXT}]"]
        return [f"click[{BACK}]"]

    def _on_good_item(self, state: State) -> list[str]:
        """Options that are still missing, or buying."""
        product = self.play.shop.product(state.product)
        left = self.oracle.clicks(product, state.chosen)
        if left == 0:
            return ["click[buy now]"]
        options = [name for name in self.play.clickable(state) if name not in (BACK, PREVIOUS)]
        found = []
        for name in options:
            after = self.play.after(state, f"click[{name}]")
            if (
                after is not None
                and after.page == "item"
                and self.oracle.clicks(product, after.chosen) < left
            ):
                found.append(f"click[{name}]")
        return found

    def _affordable(self, product: Product) -> bool:
        return min(product.pricing) <= self.play.goal.cap

    def _shared(self, product: Product) -> int:
        return len(self.wanted & set(lucene(product.title)))
