"""WebShop's reward, exactly: type × (attributes + options + price) / (number of attributes + of options + 1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, utils

from turnpoint.envs.webshop.catalogue import Goal, GoalOption, Product

CLOSE = 85
"""Token-set similarity, rounded to an integer, that must be exceeded."""
_LATIN_1 = dict.fromkeys(range(128, 256))
COLOURS = tuple(
    re.findall(
        r"\w+",
        """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac
    copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite
    grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light
    lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural navy
    nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell
    silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
    wheat white wine yellow
        """,
    )
)
"""WebShop's colours; the first one that occurs in an option stands for it, whatever the option is about."""


@dataclass(frozen=True, slots=True)
class Score:
    """A purchase and the parts of its score."""

    total: float
    type: float
    attributes: float
    """Share of the goal's attributes."""
    options: float
    """Share of the goal's options; 1.0 if there are none."""
    price: bool


def score(goal: Goal, target: Product, bought: Product, price: float, chosen: Iterable[str]) -> Score:
    """Score of buying ``bought`` for ``price`` with the option values ``chosen``.

    ``target`` is the product that the goal was made of: its title, query and categories say what type is wanted.
    """
    kind = type_score(target, bought)
    attributes = sum(has_attribute(bought, wanted) for wanted in goal.attributes)
    values = tuple(chosen)
    options = sum(any(fits(value, wanted) for value in values) for wanted in goal.options)
    affordable = price <= goal.cap
    total = (attributes + options + affordable) / (len(goal.attributes) + len(goal.options) + 1) * kind
    return Score(
        total,
        kind,
        attributes / len(goal.attributes) if goal.attributes else 1.0,
        options / len(goal.options) if goal.options else 1.0,
        affordable,
    )


def type_score(target: Product, bought: Product) -> float:
    """How far the product is of the wanted type: 1.0, 0.5, 0.1 or 0.0."""
    wanted = target.nouns
    shared = len(set(wanted) & set(bought.nouns)) / len(wanted) if wanted else 0.2
    if shared == 0.0:
        return 0.0
    if shared < 0.1:
        return 0.1
    alike = target.query == bought.query or len(target.categories & bought.categories) >= 2 or shared > 0.2
    return 1.0 if alike else 0.5


def has_attribute(product: Product, wanted: str) -> bool:
    """Whether one of the product's attributes is close to ``wanted``, or its texts hold it."""
    if any(similarity(own, wanted) > CLOSE for own in product.attributes):
        return True
    return any(wanted in text for text in product.texts)


@lru_cache(maxsize=65_536)
def fits(value: str, wanted: GoalOption) -> bool:
    """Whether a chosen value fulfils a goal's option."""
    return similarity(colour(value), option_text(wanted)) > CLOSE


def option_text(wanted: GoalOption) -> str:
    """What a goal's option is compared as.

    WebShop reduces values to their colour, but of a (name, value) pair it takes a colour only if that is a member of
    the pair: ``('color', 'wine red')`` stays whole and is compared as the printed tuple, name and all.
    """
    if isinstance(wanted, str):
        return colour(wanted)
    return next((name for name in COLOURS if name in wanted), str(wanted))


def colour(value: str) -> str:
    """The first of WebShop's colours inside ``value``; ``value`` itself if there is none."""
    return next((name for name in COLOURS if name in value), value)


def similarity(one: str, two: str) -> int:
    """``token_set_ratio`` of the library thefuzz, an integer up to 100."""
    return round(fuzz.token_set_ratio(_processed(one), _processed(two)))


@lru_cache(maxsize=65_536)
def _processed(text: str) -> str:
    return utils.default_process(text.translate(_LATIN_1))
