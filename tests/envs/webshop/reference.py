"""The score of a purchase computed slowly from the written rules, with none of the engine's code."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def similar(one: str, two: str) -> float:
    """Similarity of two texts: twice their longest common subsequence over both lengths, of 100."""
    if not one or not two:
        return 0.0
    row = [0] * (len(two) + 1)
    for letter in one:
        before = row[:]
        for at, other in enumerate(two, start=1):
            row[at] = before[at - 1] + 1 if letter == other else max(before[at], row[at - 1])
    return 200 * row[-1] / (len(one) + len(two))


@cache
def token_set_ratio(one: str, two: str) -> int:
    """Common words alone, and with the rest of either side; 100 as soon as one side has no other words."""
    left, right = words(one), words(two)
    if not left or not right:
        return 0
    both = " ".join(sorted(left & right))
    rest = [" ".join(sorted(side - (left & right))) for side in (left, right)]
    if both and not all(rest):
        return 100
    whole = [f"{both} {part}".strip() for part in rest]
    pairs = [(whole[0], whole[1]), *([(both, whole[0]), (both, whole[1])] if both else [])]
    return round(max(similar(a, b) for a, b in pairs))


def words(text: str) -> set[str]:
    """Letters and digits only, lower case; characters 128 to 255 vanish."""
    kept = "".join(c for c in text if not 128 <= ord(c) < 256)
    return set("".join(c if c.isalnum() else " " for c in kept).lower().split())


def reduced(option: Any, colours: tuple[str, ...]) -> str:
    """The first colour found *in* the option, which for a pair means as one of its two members."""
    for name in colours:
        if name in option:
            return name
    return str(option)


def score(
    goal: dict[str, Any], cap: float, target: dict[str, Any], bought: dict[str, Any], price: float,
    chosen: list[str], colours: tuple[str, ...],
) -> float:  # fmt: skip
    """Score of buying the record ``bought`` with the values ``chosen``, for a stored goal made of ``target``."""
    texts = [bought["title"].lower(), " ".join(bought["bullets"]).lower(), bought["description"].lower()]
    points = 1 if price <= cap else 0
    for wanted in goal["attributes"]:
        close = [own for own in bought["attributes"] if token_set_ratio(own, wanted) > 85]
        points += 1 if close or [text for text in texts if wanted in text] else 0
    for wanted in goal["options"]:
        option = wanted if isinstance(wanted, str) else tuple(wanted)
        named = reduced(option, colours)
        points += any(token_set_ratio(reduced(value, colours), named) > 85 for value in chosen)
    return points / (len(goal["attributes"]) + len(goal["options"]) + 1) * kind(target, bought)


def kind(target: dict[str, Any], bought: dict[str, Any]) -> float:
    """The factor for the type of product."""
    wanted, given = target["nouns"], set(bought["nouns"])
    title = len({noun for noun in wanted if noun in given}) / len(wanted) if wanted else 0.2
    one, two = (
        {part.strip() for part in record["product_category"].split("›")} for record in (target, bought)
    )
    same = target["query"] == bought["query"] or len(one & two) >= 2 or title > 0.2
    if title == 0:
        return 0.0
    return 0.1 if title < 0.1 else 1.0 if same else 0.5
