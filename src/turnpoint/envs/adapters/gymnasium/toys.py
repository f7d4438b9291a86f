"""What Gymnasium does not say in words about its own toy environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Success = float | Literal["terminated"] | None
_STANDS = ("R", "G", "Y", "B")


class Toy(NamedTuple):
    """Names of the actions in their order, rules, what a success is, and what the drawing does not show."""

    actions: tuple[str, ...]
    rules: str
    success: Success = None
    words: Callable[[Any, Any], str] | None = None


def _taxi(env: Any, observation: Any) -> str:
    """Where everybody is; the drawing tells it by colours alone."""
    row, column, passenger, destination = (int(value) for value in env.unwrapped.decode(int(observation)))
    where = "in the taxi" if passenger == len(_STANDS) else f"at {_STANDS[passenger]}"
    return f"Taxi in row {row} column {column}. Passenger {where}. Destination {_STANDS[destination]}."


TOYS = {
    "FrozenLake": Toy(
        ("left", "down", "right", "up"),
        "You walk over a frozen lake. S is the start, F is ice, H is a hole, G is the goal; you stand at the letter in "
        "brackets. Reach the goal; a hole ends the walk. The ice may be slippery.",
    ),
    "Taxi": Toy(
        ("south", "north", "east", "west", "pickup", "dropoff"),
        "You drive a taxi. Walls are written |. Fetch the passenger and drop them at their destination; the stands R, "
        "G, Y and B are drawn, rows and columns count from 0.",
        "terminated",
        _taxi,
    ),
    "Blackjack": Toy(
        ("stick", "hit"),
        "You play blackjack. The observation is your sum, the dealer's open card, and whether you hold a usable ace. "
        "hit takes a card, stick ends your turn; above 21 you lose.",
        1.0,
    ),
    "CliffWalking": Toy(
        ("up", "right", "down", "left"),
        "You walk along a cliff. x is you, T is the goal, C is the cliff, which costs 100 and brings you back to the "
        "start. Every other step costs 1.",
        "terminated",
    ),
}
"""By the name before the version."""


def toy_of(identifier: str) -> Toy | None:
    """The toy environment of a registered id such as ``FrozenLake-v1``."""
    name = identifier.rpartition("/")[2].partition("-")[0].removesuffix("8x8").removesuffix("Slippery")
    return TOYS.get(name)
