"""Products, and the goals that WebShop makes of them."""

from __future__ import annotations

import itertools
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

GoalOption = str | tuple[str, str]
"""Human goals name values; synthetic ones (name, value), which are compared as such."""
PRICE_STEP, PRICE_STEPS, PRICES_CLOSE = 10.0, range(1, 100), 4
NO_CAP = 1_000_000.0
"""Price cap of goals whose product costs more than any cap."""
SHUFFLE_SEED = 233
"""WebShop shuffles all goals with this seed before it cuts off the first for testing."""
NO_ATTRIBUTE = "DUMMY_ATTR"
"""Attribute of products without any."""


@dataclass(frozen=True)
class Product:
    """A product as the shop shows it, with what only the reward knows."""

    number: int
    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    pricing: tuple[float, ...]
    """One price, or the two ends of a range."""
    price: str
    """As it is shown."""
    rating: str
    reviews: tuple[tuple[str, str, str], ...]
    """Title, stars, body."""
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]
    query: str
    """The search that the listing was collected with; part of the reward."""
    categories: frozenset[str]
    nouns: tuple[str, ...]
    """Nouns of the title in lower case, repeats kept."""

    @classmethod
    def of(cls, number: int, record: dict[str, Any]) -> Product:
        """From the record of a prepared catalogue."""
        return cls(
            number,
            record["asin"],
            record["title"],
            record["description"],
            tuple(record["bullets"]),
            tuple(record["pricing"]),
            record["price"],
            record["rating"],
            tuple((r[0], r[1], r[2]) for r in record["reviews"]),
            tuple((name, tuple(values)) for name, values in record["options"]),
            tuple(record["attributes"]),
            record["query"],
            frozenset(part.strip() for part in record["product_category"].split("›")),
            tuple(record["nouns"]),
        )

    @cached_property
    def texts(self) -> tuple[str, str, str]:
        """Title, bullet points and description in lower case: where attributes are looked for."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()


@dataclass(frozen=True)
class Goal:
    """What is to be bought."""

    product: int
    """Number of the product that the goal was made of."""
    instruction: str
    """Without the price."""
    request: str
    """The instruction without options."""
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    cap: float
    """Highest price."""

    @property
    def text(self) -> str:
        """The whole instruction."""
        return self.instruction + (
            "" if self.cap == NO_CAP else f", and price lower than {self.cap:.2f} dollars"
        )


def price_of(product: Product, seed: int) -> float:
    """What a product costs; a range is drawn from once per seed."""
    if len(product.pricing) < 2:
        return product.pricing[0]
    return random.Random(f"price/{seed}/{product.asin}").uniform(*product.pricing[:2])


def cap_of(product: Product, seed: int, goal: str = "") -> float:
    """Price cap: one of the next four multiples of ten above the price, never the first; ``goal`` names the draw."""
    price = price_of(product, seed)
    above = [PRICE_STEP * step for step in PRICE_STEPS if PRICE_STEP * step > price][:PRICES_CLOSE]
    if len(above) < 2:
        return NO_CAP
    return max(random.Random(f"cap/{seed}/{product.asin}/{goal}").sample(above, 2))


def synthetic_goals(number: int, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A goal for every combination of a product's options; none without an instruction."""
    request = record["instruction"]
    if not request:
        return
    options = sorted((name, values) for name, values in dict(record["options"]).items())
    for values in itertools.product(*(values for _, values in options)):
        chosen = [[name, value] for (name, _), value in zip(options, values, strict=True)]
        named = ", and ".join(f"{name}: {value}" for name, value in chosen)
        yield {
            "kind": "synthetic",
            "product": number,
            "instruction": f"{request} with {named}" if named else request,
            "request": request,
            "attributes": record["instruction_attributes"],
            "options": chosen,
        }


def human_goals(number: int, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The goals that people wrote for a product; those without attributes are left out."""
    for index, written in enumerate(record["human"]):
        if not written["attributes"]:
            continue
        text = written["instruction"].strip(".")
        yield {
            "kind": "human",
            "product": number,
            "instruction": text,
            "request": text,
            "attributes": written["attributes"],
            "options": written["options"],
            "draw": str(index),
        }


def shuffled(goals: array[int]) -> array[int]:
    """Goals in WebShop's order."""
    order = goals[:]
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order


def goal_of(item: dict[str, Any], product: Product, price_seed: int) -> Goal:
    """The goal of a stored item, its price cap drawn."""
    options = tuple(
        option if isinstance(option, str) else (option[0], option[1]) for option in item["options"]
    )
    cap = cap_of(product, price_seed, item.get("draw", ""))
    return Goal(
        item["product"], item["instruction"], item["request"], tuple(item["attributes"]), options, cap
    )
