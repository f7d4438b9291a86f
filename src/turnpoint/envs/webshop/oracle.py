"""The least number of turns to a purchase with score 1.0, and the actions that begin such a way.

Exact over everything that can be clicked. Of the endless searches it knows those that are made of the instruction and,
where any words can be searched, the title of the goal's product: a better one may exist, but the same best ones are
meant in every state, so distances are consistent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from turnpoint.envs.webshop.catalogue import Product
from turnpoint.envs.webshop.engine import Play
from turnpoint.envs.webshop.pages import PAGE_SIZE, SUB_PAGES, State, option_names
from turnpoint.envs.webshop.reward import fits, has_attribute, type_score

_FAR = 1 << 30
"""No way."""


class Oracle:
    """Of one goal; it sees the whole catalogue. ``limit``: products judged so far that are remembered."""

    def __init__(self, play: Play, *, limit: int = 4096) -> None:
        self.play = play
        self.whole = (1 << len(play.goal.options)) - 1
        self.right = lru_cache(maxsize=limit)(self._right)
        self.from_search = lru_cache(maxsize=1)(self._from_search)

    @property
    def searches(self) -> tuple[str, ...]:
        """Searches that are considered, the instruction's first."""
        title = " ".join(self.play.target.title.lower().split())
        known = self.play.offered + ((title,) if self.play.settings.searches == "open" else ())
        return tuple(dict.fromkeys(query for query in known if "]" not in query))

    def distance(self, state: State) -> int | None:
        """Turns to a purchase with score 1.0; 0 after one, None if there is no way."""
        if state.page == "done":
            return 0 if self.play.score(state).total == 1.0 else None
        turns = self._turns(state)
        return turns if turns < _FAR else None

    def best_actions(self, state: State) -> list[str]:
        """Every clickable action, and every search that is considered, that lowers the distance by one."""
        here = self.distance(state)
        if not here:
            return []
        actions = [f"click[{name}]" for name in self.play.clickable(state)]
        if self.play.searchable(state):
            actions += [f"search[{query}]" for query in self.searches]
        return [action for action in actions if self._leads_to(state, action, here - 1)]

    def solves(self, product: Product) -> bool:
        """Whether some purchase of this product scores 1.0."""
        return self.clicks(product, ()) < _FAR

    def clicks(self, product: Product, chosen: Iterable[tuple[str, str]]) -> int:
        """Least number of options still to click before buying scores 1.0; ``_FAR`` if nothing helps."""
        if not self.right(product.number):
            return _FAR
        now, names = dict(chosen), option_names(product)
        costs = {0: 0}
        for name, values in product.options:
            masks = {self._mask(now[name]): 0} if name in now else {0: 0}
            for value in values:
                if names.get(value) == name:
                    masks.setdefault(self._mask(value), 1)
            reached: dict[int, int] = {}
            for done, cost in costs.items():
                for mask, more in masks.items():
                    both = done | mask
                    reached[both] = min(reached.get(both, _FAR), cost + more)
            costs = reached
        return costs.get(self.whole, _FAR)

    def _leads_to(self, state: State, action: str, distance: int) -> bool:
        after = self.play.after(state, action)
        return after is not None and self.distance(after) == distance

    def _turns(self, state: State) -> int:
        search = self.from_search()
        if state.page == "search":
            return search
        away = search if self.play.settings.search_anywhere else search + 1
        if state.page == "results":
            return min(self._from_results(state), away)
        if state.page in SUB_PAGES:
            return min(1 + self._turns(state._replace(page="item")), away)
        clicks = self.clicks(self.play.shop.product(state.product), state.chosen)
        back = State("results", state.query, state.number)
        return min(clicks + 1, 1 + self._from_results(back), away)

    def _from_search(self) -> int:
        firsts = (State("results", query) for query in self.searches)
        return min((1 + self._from_results(first) for first in firsts), default=_FAR)

    def _from_results(self, state: State) -> int:
        """Without searching again: turn pages, open a product, choose, buy."""
        best = _FAR
        for place, number in enumerate(self.play.results(state)):
            turns = abs(place // PAGE_SIZE + 1 - state.number) + 2
            if turns < best:
                best = min(best, turns + self.clicks(self.play.shop.product(number), ()))
        return best

    def _right(self, number: int) -> bool:
        """Whether a product can score 1.0 as far as options do not matter."""
        product, goal = self.play.shop.product(number), self.play.goal
        return (
            self.play.prices(product) <= goal.cap
            and type_score(self.play.target, product) == 1.0
            and all(has_attribute(product, wanted) for wanted in goal.attributes)
        )

    def _mask(self, value: str) -> int:
        """The goal's options that a chosen value fulfils, as bits."""
        return sum(1 << bit for bit, wanted in enumerate(self.play.goal.options) if fits(value, wanted))
