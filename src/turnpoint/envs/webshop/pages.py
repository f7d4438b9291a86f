"""What the shop shows: pages as text, and what can be clicked on them."""

from __future__ import annotations

from typing import NamedTuple

from turnpoint.envs.webshop.catalogue import Product
from turnpoint.envs.webshop.settings import WebShopSettings

SEPARATOR = " [SEP] "
BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
SUB_PAGES = ("description", "features", "reviews", "attributes")
RESERVED = frozenset({BACK, PREVIOUS, NEXT, BUY, "search", *SUB_PAGES})
"""Names that always mean the button, also where an option is called so."""
PAGE_SIZE = 10
"""Products on a page of results."""
THANKS = "Thank you for shopping with us!"
SCORED = "Your score (min 0.0, max 1.0)"


class State(NamedTuple):
    """Where an episode is in the shop."""

    page: str = "search"
    """``search``, ``results``, ``item``, one of ``SUB_PAGES``, or ``done``."""
    query: str = ""
    number: int = 1
    """Page of the results, from 1."""
    product: int = -1
    """Number of the product that is open, or was bought."""
    chosen: tuple[tuple[str, str], ...] = ()
    """Options as (name, value), in the order of their choice."""


def buttons(
    state: State, results: tuple[int, ...], product: Product | None, settings: WebShopSettings
) -> list[str]:
    """Buttons of a page, without products and options."""
    if state.page in ("search", "done"):
        return []
    if state.page == "results":
        found = [BACK]
        found += [PREVIOUS] if state.number > 1 else []
        return found + ([NEXT] if state.number * PAGE_SIZE < len(results) else [])
    if state.page in SUB_PAGES or product is None:
        return [BACK, PREVIOUS]
    return [BACK, PREVIOUS, *sub_pages(settings), BUY]


def sub_pages(settings: WebShopSettings) -> tuple[str, ...]:
    """Pages that a product has."""
    return SUB_PAGES if settings.attributes_page else SUB_PAGES[:-1]


def option_names(product: Product) -> dict[str, str]:
    """Name of the option that clicking a value sets; of equal values the last option's counts, as in WebShop."""
    return {
        value: name for name, values in product.options for value in values if value not in RESERVED and value
    }


def shown_results(state: State, results: tuple[int, ...]) -> tuple[int, ...]:
    """Products of the page that ``state`` is on."""
    return results[(state.number - 1) * PAGE_SIZE : state.number * PAGE_SIZE]


def page_text(
    state: State,
    instruction: str,
    results: tuple[int, ...],
    shown: list[Product],
    settings: WebShopSettings,
    score: float | None,
) -> str:
    """The visible strings of a page.

    Args:
        results: Everything that the search found.
        shown: Products of a page of results, or the product that is open.
        score: Of the purchase, on the last page.
    """
    if state.page == "done":
        return SEPARATOR.join((THANKS, SCORED, f"{score}"))
    head = ["Instruction:", instruction] if settings.show_instruction else []
    if state.page == "search":
        return SEPARATOR.join(["WebShop", *head, "Search"])
    head.append("Back to Search")
    if state.page == "results":
        parts = [f"Page {state.number} (Total results: {len(results)})"]
        parts += ["< Prev"] if state.number > 1 else []
        parts += ["Next >"] if state.number * PAGE_SIZE < len(results) else []
        for product in shown:
            parts += [product.asin, product.title, product.price]
    elif state.page == "item":
        parts = _item(shown[0], state, settings)
    else:
        parts = ["< Prev", *_sub_page(shown[0], state.page)]
    return SEPARATOR.join(part.strip() for part in (*head, *parts))


def _item(product: Product, state: State, settings: WebShopSettings) -> list[str]:
    parts = ["< Prev"]
    for name, values in product.options:
        parts += [name, *values]
    parts += [product.title, f"Price: {product.price}", f"Rating: {product.rating}"]
    parts += [*(name.capitalize() for name in sub_pages(settings)), "Buy Now"]
    if settings.show_chosen and state.chosen:
        parts.append("Chosen: " + ", ".join(f"{name}: {value}" for name, value in state.chosen))
    return parts


def _sub_page(product: Product, page: str) -> list[str]:
    if page == "description":
        return [product.description or "No Description"]
    if page == "features":
        return list(product.bullets) or ["No Features"]
    if page == "attributes":
        return [*product.attributes, product.query]
    return [part for title, stars, body in product.reviews for part in (f'"{title}"', stars, body)] or [
        "No reviews found"
    ]
