"""The shop's rules: what an action leads to, and what a purchase is worth. One ``Play`` per task."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

from turnpoint.envs.webshop.catalogue import Goal, Product, price_of
from turnpoint.envs.webshop.pages import (
    BACK,
    BUY,
    NEXT,
    PAGE_SIZE,
    PREVIOUS,
    SUB_PAGES,
    State,
    buttons,
    option_names,
    page_text,
    shown_results,
)
from turnpoint.envs.webshop.reward import Score, score
from turnpoint.envs.webshop.settings import WebShopSettings


class Shop(Protocol):
    """A catalogue that can be searched."""

    settings: WebShopSettings

    def product(self, number: int) -> Product:
        """A product."""

    def find(self, asin: str) -> int | None:
        """Number of the product with this id."""

    def search(self, query: str) -> tuple[int, ...]:
        """Products found, best first."""


class Action(NamedTuple):
    """``search[...]`` or ``click[...]``, the argument in lower case."""

    verb: str
    argument: str


class Play:
    """A goal in a shop. Holds caches, no state of an episode."""

    def __init__(self, shop: Shop, goal: Goal, price_seed: int) -> None:
        self.shop, self.goal = shop, goal
        self.settings = shop.settings
        self.target = shop.product(goal.product)
        self.prices: Callable[[Product], float] = lambda product: price_of(product, price_seed)
        self.offered = offered_searches(goal)
        self.clickable = lru_cache(maxsize=64)(self._clickable)

    def results(self, state: State) -> tuple[int, ...]:
        """What the search of ``state`` found."""
        return self.shop.search(state.query) if state.page == "results" else ()

    def shown(self, state: State) -> list[Product]:
        """Products that the page of ``state`` is about."""
        if state.page == "results":
            return [self.shop.product(number) for number in shown_results(state, self.results(state))]
        return [self.shop.product(state.product)] if state.product >= 0 else []

    def text(self, state: State) -> str:
        """The page as text."""
        results, shown = self.results(state), self.shown(state)
        total = self.score(state).total if state.page == "done" else None
        return page_text(state, self.goal.text, results, shown, self.settings, total)

    def score(self, state: State) -> Score:
        """Score of buying what ``state`` has open, with its options."""
        bought = self.shop.product(state.product)
        return score(
            self.goal, self.target, bought, self.prices(bought), (value for _, value in state.chosen)
        )

    def searchable(self, state: State) -> bool:
        """Whether a search is accepted on this page."""
        return state.page == "search" or (self.settings.search_anywhere and state.page != "done")

    def actions(self, state: State) -> tuple[str, ...] | None:
        """Every accepted action; None where any text can be searched."""
        if not self.searchable(state):
            return tuple(f"click[{name}]" for name in self.clickable(state))
        if self.settings.searches == "open":
            return None
        return tuple(f"search[{query}]" for query in self.offered)

    def after(self, state: State, action: str) -> State | None:
        """State after an action; None if the page does not accept it."""
        parsed = parse(action)
        if parsed is None:
            return None
        if parsed.verb == "search":
            query = " ".join(parsed.argument.split())
            allowed = self.settings.searches == "open" or query in self.offered
            return State("results", parsed.argument) if query and allowed and self.searchable(state) else None
        if parsed.argument not in self.clickable(state):
            return None
        return self._click(state, parsed.argument)

    def _clickable(self, state: State) -> tuple[str, ...]:
        """Names of everything that can be clicked."""
        shown = self.shown(state)
        product = shown[0] if state.page == "item" else None
        names = buttons(state, self.results(state), product, self.settings)
        if state.page == "results":
            names += [item.asin.lower() for item in shown]
        elif product is not None:
            names += list(option_names(product))
        return tuple(dict.fromkeys(names))

    def _click(self, state: State, name: str) -> State:
        if name == BACK:
            return State()
        if name == BUY:
            return state._replace(page="done")
        if name == NEXT:
            return state._replace(number=state.number + 1)
        if name == PREVIOUS:
            return self._previous(state)
        if name in SUB_PAGES:
            return state._replace(page=name)
        if state.page == "results":
            number = next(item.number for item in self.shown(state) if item.asin.lower() == name)
            return state._replace(page="item", product=number)
        option = option_names(self.shop.product(state.product))[name]
        return state._replace(chosen=tuple({**dict(state.chosen), option: name}.items()))

    def _previous(self, state: State) -> State:
        if state.page == "results":
            return state._replace(number=state.number - 1)
        if state.page == "item":
            return State("results", state.query, state.number)
        return state._replace(page="item")


def offered_searches(goal: Goal) -> tuple[str, ...]:
    """Searches made of the instruction alone: all of it but the price, then without the options."""
    texts = (goal.instruction, goal.request, goal.request.removeprefix("Find me "))
    return tuple(dict.fromkeys(" ".join(text.lower().split()) for text in texts if text.strip()))


def parse(action: str) -> Action | None:
    """``search[words]`` or ``click[name]``; what follows the last bracket is ignored. None if it is neither."""
    text = action.strip()
    end = text.rfind("]")
    for verb in ("search", "click"):
        if text.startswith(f"{verb}["):
            argument = text[len(verb) + 1 : max(end, 0)].lower()
            return Action(verb, argument) if argument else None
    return None


def pages(count: int) -> int:
    """Pages that so many results take."""
    return -(-count // PAGE_SIZE)
