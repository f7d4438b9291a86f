"""A catalogue drawn from a seed: products of one word list, free of anybody's listings, with a closed vocabulary."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

GENERATOR_VERSION = 1
"""Part of the header; raised whenever a seed gives another catalogue."""

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "shirt": ("clothing", ("cotton", "long sleeve", "slim fit", "machine wash", "button closure")),
    "jacket": (
        "clothing",
        ("water resistant", "long sleeve", "zipper closure", "winter warm", "machine wash"),
    ),
    "dress": ("clothing", ("polyester", "short sleeve", "daily wear", "machine wash", "elastic waist")),
    "sneakers": ("shoes", ("rubber sole", "lace up", "arch support", "lightweight", "daily wear")),
    "boots": ("shoes", ("rubber sole", "steel toe", "water resistant", "winter warm", "lace up")),
    "sandals": ("shoes", ("open toe", "rubber sole", "ankle strap", "lightweight", "summer wear")),
    "lamp": ("home", ("living room", "easy install", "energy efficient", "glass shade", "dimmable")),
    "chair": ("home", ("solid wood", "living room", "easy assemble", "lumbar support", "height adjustable")),
    "table": ("home", ("solid wood", "easy assemble", "dining room", "space saving", "steel frame")),
    "curtain": ("home", ("living room", "machine wash", "blackout", "energy efficient", "polyester")),
    "shampoo": ("beauty", ("sulfate free", "tea tree", "dry hair", "cruelty free", "coconut oil")),
    "lotion": ("beauty", ("dry skin", "fragrance free", "cruelty free", "coconut oil", "sensitive skin")),
    "headphones": (
        "electronics",
        ("noise cancelling", "long battery", "hands free", "lightweight", "fast charging"),
    ),
    "charger": ("electronics", ("fast charging", "easy carry", "usb port", "long cable", "wall mount")),
    "tea": (
        "grocery",
        ("caffeine free", "low sugar", "gift basket", "individually wrapped", "certified pure"),
    ),
    "cookies": ("grocery", ("gluten free", "low sugar", "individually wrapped", "nut free", "gift basket")),
}
"""Kinds of products with their department and attributes."""
BRANDS = ("Alder", "Birch", "Cedar", "Dune", "Ember", "Fjord", "Grove", "Harbor", "Isle", "Juniper")
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "clothing": {"color": ("black", "white", "navy", "red", "olive"), "size": ("small", "medium", "large")},
    "shoes": {"color": ("black", "brown", "white"), "size": ("7", "8", "9", "10")},
    "home": {"color": ("walnut", "white", "grey")},
    "beauty": {"size": ("4 ounce", "8 ounce", "16 ounce")},
    "electronics": {"color": ("black", "silver", "blue")},
    "grocery": {"flavor": ("lemon", "vanilla", "ginger"), "size": ("1 pack", "2 pack")},
}
_PRICES = range(8, 92, 4)


def generate(products: int, seed: int) -> Iterator[dict[str, Any]]:
    """Product records as of a prepared catalogue; the first ``n`` are the same for every larger number."""
    for number in range(products):
        yield _product(number, random.Random(f"catalogue/{GENERATOR_VERSION}/{seed}/{number}"))


def _product(number: int, rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(list(KINDS))
    department, known = KINDS[kind]
    attributes = rng.sample(known, 3)
    wanted = sorted(rng.sample(attributes, rng.randint(1, 2)))
    low = rng.choice(_PRICES)
    pricing = [float(low)] if rng.random() < 0.8 else [float(low), float(low + rng.choice((2, 6)))]
    brand = rng.choice(BRANDS)
    options = [
        [name, sorted(rng.sample(values, rng.randint(2, len(values))), key=values.index)]
        for name, values in CHOICES[department].items()
    ]
    return {
        "asin": f"G{number:06d}",
        "title": f"{brand} {kind} {attributes[0]} {attributes[1]}",
        "description": f"{kind} by {brand}: {attributes[2]}",
        "bullets": [f"{attribute} {kind}" for attribute in attributes],
        "pricing": pricing,
        "price": " to ".join(f"${price:.0f}" for price in pricing),
        "rating": "N.A.",
        "reviews": [],
        "options": options,
        "attributes": attributes,
        "query": kind,
        "category": department,
        "product_category": f"shop › {department} › {kind}",
        "instruction": f"Find me {', '.join(wanted)} {kind}",
        "instruction_attributes": wanted,
        "human": [],
    }


def tag(title: str) -> list[str]:
    """Nouns of a generated title: brand and kind."""
    return title.lower().split()[:2]
