"""Generated problems: short, with an exact answer, for trying things out without any data."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from turnpoint.envs.seeded import split_of

GENERATOR_VERSION = 1
"""Part of the hash of generated problems; raised whenever a seed gives another problem."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its reference answer, as LaTeX."""

    text: str
    answer: str
    type: str = ""


def generate(seed: int, split: str) -> Problem:
    """The problem of a seed; families take turns, and no problem appears in two splits."""
    family = _FAMILIES[seed % len(_FAMILIES)]
    rng = random.Random(f"math/{GENERATOR_VERSION}/{seed}")
    text, answer = family(rng)
    while split_of(text) != split:
        text, answer = family(rng)
    return Problem(text, _latex(answer), family.__name__.strip("_"))


def _latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _linear(rng: random.Random) -> tuple[str, Fraction]:
    a, b, c = rng.randint(2, 12), rng.randint(-20, 20), rng.randint(-40, 40)
    sign = "-" if b < 0 else "+"
    return f"Solve ${a}x {sign} {abs(b)} = {c}$ for $x$.", Fraction(c - b, a)


def _fractions(rng: random.Random) -> tuple[str, Fraction]:
    a, b, c, d = (rng.randint(1, 9) for _ in range(4))
    return f"Compute $\\frac{{{a}}}{{{b}}} + \\frac{{{c}}}{{{d}}}$.", Fraction(a, b) + Fraction(c, d)


def _remainder(rng: random.Random) -> tuple[str, Fraction]:
    base, power, modulus = rng.randint(2, 9), rng.randint(5, 60), rng.randint(3, 20)
    text = f"What is the remainder when ${base}^{{{power}}}$ is divided by ${modulus}$?"
    return text, Fraction(pow(base, power, modulus))


def _sum(rng: random.Random) -> tuple[str, Fraction]:
    first, difference, count = rng.randint(1, 20), rng.randint(1, 9), rng.randint(5, 30)
    text = (
        f"An arithmetic sequence begins with ${first}$ and grows by ${difference}$ from term to term. "
        f"What is the sum of its first ${count}$ terms?"
    )
    return text, Fraction(count * (2 * first + (count - 1) * difference), 2)


_FAMILIES: tuple[Callable[[random.Random], tuple[str, Fraction]], ...] = (
    _linear,
    _fractions,
    _remainder,
    _sum,
)
